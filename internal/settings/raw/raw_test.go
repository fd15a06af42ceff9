// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// deaths are the values of --on-client-death.
var deaths = map[page.ClientDeath]policy.ClientDeath{
	page.AutoOnClientDeath: policy.AutoOnClientDeath,
	page.StopOnClientDeath: policy.StopOnClientDeath,
	page.IgnoreClientDeath: policy.IgnoreClientDeath,
}

// argv puts words into memory as execve(2) does.
func argv(words []string) (args []uintptr, keep func()) {
	var texts [][]byte
	for _, word := range words {
		text := append([]byte(word), 0)
		texts = append(texts, text)
		args = append(args, uintptr(unsafe.Pointer(&text[0])))
	}
	return args, func() { runtime.KeepAlive(texts) }
}

// read returns what Flags.Read makes of a command line, and whether main is needed.
func read(words []string) (f Flags, name string, command []string, needsMain bool) {
	f.EOFGrace = int64(policy.DefaultEOFGrace)
	f.TermGrace = int64(policy.DefaultTermGrace)
	args, keep := argv(words)
	defer keep()
	rest := f.Read(args)
	for _, addr := range rest {
		command = append(command, strings.Clone(Text(addr)))
	}
	if f.Name != 0 {
		name = strings.Clone(Text(f.Name))
	}
	return f, name, command, len(rest) == 0
}

// describe writes all that the flags say in the words of package settings.
func (f *Flags) describe(name string, command []string) string {
	var limits []string
	at := uint32(0)
	for file, value := f.Limits.Next(&at); file != ""; file, value = f.Limits.Next(&at) {
		limits = append(limits, file+"="+value)
	}
	backend := "auto"
	if f.InCgroup {
		backend = "cgroup"
	}
	return fmt.Sprint(name, " ", backend, " ", f.policy(), " ", limits, f.Replace, f.Require, f.Quiet, f.Verbose, command)
}

func (f *Flags) policy() policy.Policy {
	return policy.Policy{
		EOFGrace: time.Duration(f.EOFGrace), TermGrace: time.Duration(f.TermGrace),
		IdleFreeze: time.Duration(f.IdleFreeze), IdleTimeout: time.Duration(f.IdleTimeout),
		OnClientDeath: deaths[f.OnClientDeath],
	}
}

// parsedByMain is what package settings makes of the same command line.
func parsedByMain(words []string) (string, error) {
	v := settings.Defaults()
	command, help, err := v.FromArguments(settings.Run, words)
	if err != nil || help {
		return "", fmt.Errorf("help: %v, %w", help, err)
	}
	var limits []string
	for _, l := range v.Limits.Files {
		limits = append(limits, l.String())
	}
	others := v.MinFree != 0 || v.Output.Report != "" || v.Output.Stderr != "inherit"
	if others {
		return "", fmt.Errorf("flags that are read by main alone")
	}
	return fmt.Sprint(v.Name, " ", v.Backend, " ", v.Policy, " ", limits, v.Replace, v.Require, v.Output.Quiet, v.Output.Verbose, command), nil
}

// compare fails the test if raw code reads a command line in another way than main.
func compare(t *testing.T, words []string) (needsMain bool) {
	t.Helper()
	f, name, command, needsMain := read(words)
	if needsMain {
		return true
	}
	want, err := parsedByMain(words)
	if err != nil {
		t.Errorf("%q: raw code starts it, and main says %v", words, err)
	} else if got := f.describe(name, command); got != want {
		t.Errorf("%q:\n%s raw, and\n%s by main", words, got, want)
	}
	return false
}

// Raw code reads the usual flags, as main does.
func TestFlagsAsByMain(t *testing.T) {
	for line, byMain := range map[string]bool{
		"-- npx":                               false,
		"npx --name x":                         false,
		"--name git -- npx":                    false,
		"--name=git -- npx -y x":               false,
		"-name git npx":                        false,
		"--backend cgroup -- x":                false,
		"--backend=auto -- x":                  false,
		"--backend tree -- x":                  true,
		"--require -- x":                       false,
		"--require=false -- x":                 false,
		"--require=0 -- x":                     true,
		"--eof-grace 5s -- x":                  false,
		"--eof-grace=500ms -- x":               false,
		"--eof-grace 0 -- x":                   false,
		"--eof-grace 1.5s -- x":                true,
		"--eof-grace infinity -- x":            true,
		"--eof-grace 99999999h -- x":           true,
		"--eof-grace -- x":                     true,
		"--term-grace 10m -- x":                false,
		"--on-client-death stop x":             false,
		"--on-client-death=ignore x":           false,
		"--on-client-death=never x":            true,
		"--replace -- x":                       false,
		"--idle-timeout 0 -- x":                false,
		"--idle-freeze=10m -- x":               false,
		"--memory-max 512M -- x":               false,
		"--memory-max=2G -- x":                 false,
		"--memory-max 4096T -- x":              false,
		"--memory-max 800 -- x":                true,
		"--memory-max max -- x":                true,
		"--memory-max 1.5G -- x":               true,
		"--memory-max 1G --memory-max 2G -- x": true,
		"--cpu-max 150% -- x":                  false,
		"--cpu-max 150 -- x":                   true,
		"--cpu-max 0% -- x":                    true,
		"--pids-max 100 -- x":                  false,
		"--pids-max 0 -- x":                    true,
		"--set memory.high=800M -- x":          false,
		"--set=memory.high=800M;cpu.weight=50;memory.oom.group=0 --pids-max=9 -- x": false,
		"--set io.max=8:0 -- x":       false,
		"--set cpu.weight -- x":       true,
		"--set cgroup.freeze=1 -- x":  true,
		"--set cpu.weight=50; -- x":   true,
		"--set cpuset.cpus=0 -- x":    true,
		"-q -- x":                     false,
		"-v -- x":                     false,
		"-qv -- x":                    true,
		"--verbose --quiet=true -- x": false,
		"--stderr journal -- x":       true,
		"--min-free 1G -- x":          true,
		"--report r -- x":             true,
		"--help":                      true,
		"--nmae x -- x":               true,
		"--":                          true,
		"":                            true,
		"--name":                      true,
		"--name .x -- x":              true,
		"--name a/b -- x":             true,
		"- x":                         false,
		"--- x":                       true,
		"--name 12 -- x":              true,
	} {
		if got := compare(t, strings.Fields(line)); got != byMain {
			t.Errorf("%s: read by main: %v, want %v", line, got, byMain)
		}
	}
}

func FuzzFlags(f *testing.F) {
	for _, line := range []string{
		"--name=git --backend auto --eof-grace 1h --set memory.max=1G;cpu.max=5% -v -- x", "-q --pids-max 07 x",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !strings.Contains(text, "\x00") {
			compare(t, strings.Split(text, "\n"))
		}
	})
}

// settingsByMain is what package settings makes of a file, for a server. It returns false if that has a mistake, or
// more than the files that raw code reads.
func settingsByMain(path string) (described string, ok bool) {
	c := settings.ParseFiles([]settings.FilePlace{{Path: path}})
	v := settings.Defaults()
	v.FromFile(c.For("x"))
	isOfDefaults := len(c.Clients)+len(c.OfServers()) == 0
	return fmt.Sprint(v.Policy), isOfDefaults && len(c.Problems) == 0
}

// readFile returns what raw code makes of it, and false where main has to read it.
func readFile(path string) (described string, ok bool) {
	f := Flags{EOFGrace: int64(policy.DefaultEOFGrace), TermGrace: int64(policy.DefaultTermGrace)}
	args, keep := argv([]string{path})
	defer keep()
	ok = f.ReadFile(args[0])
	return fmt.Sprint(f.policy()), ok
}

// compareFile fails the test if raw code reads a file in another way than main.
func compareFile(t *testing.T, path, text string) (ok bool) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, ok := readFile(path)
	if want, wanted := settingsByMain(path); ok && (!wanted || got != want) {
		t.Errorf("%q:\n%s raw, and\n%s, %v by main", text, got, want, wanted)
	}
	return ok
}

// Raw code reads files with comments, empty tables, and the usual settings, as main does.
func TestFilesAsByMain(t *testing.T) {
	packaged, err := os.ReadFile("../../../packaging/mcpscope.toml")
	if err != nil {
		t.Fatal(err)
	}
	for text, byRaw := range map[string]bool{
		"":                  true,
		string(packaged):    true,
		"\n\r\n \t\n":       true,
		"# ä\n[defaults]\n": true,
		"[defaults] # here\n[server.\"git*\"]\n#x = 1":                      true,
		"[defaults]\nterm-grace = \"4s\"\n":                                 true,
		"[defaults]\r\n eof-grace=\"0\" # now\r\n\tidle-freeze\t=\t\"10m\"": true,
		"[defaults]\non-client-death = \"ignore\"\nidle-timeout = \"2h\"":   true,
		"[defaults]\nterm-grace = \"1s\"\nterm-grace = \"2s\"\n":            false,
		"[defaults]\n[defaults]\n":                                          false,
		"[defaults]\nterm-grace = 4\n":                                      false,
		"[defaults]\nterm-grace = \"4\"\n":                                  false,
		"[defaults]\nterm-grace = \"\"\n":                                   false,
		"[defaults]\nterm-grace = \"\n":                                     false,
		"[defaults]\nterm-grace\n":                                          false,
		"[defaults]\nterm-grace = \"\\u0034s\"\n":                           false,
		"[defaults]\nterm-grace = \"1s\" eof-grace = \"1s\"\n":              false,
		"[defaults]\n\"term-grace\" = \"1s\"\n":                             false,
		"[defaults]\nname = \"x\"\n":                                        false,
		"[defaults]\nkeep = [\"x\"]\n":                                      false,
		"[defaults]\nmemory-max = \"1G\"\n":                                 false,
		"[defaults]\nreplace = true\n":                                      false,
		"[server.\"x\"]\nterm-grace = \"5s\"\n":                             false,
		"[defaults]\n[server.\"x\"]\nterm-grace = \"5s\"\n":                 false,
		"term-grace = \"5s\"\n":                                             false,
		"[default]\n":                                                       false, // a mistake
		"[[defaults]]\n":                                                    false,
		"[server.\"\"]\n":                                                   false,
		"# \x01\n":                                                          false,
		"# \xff\n":                                                          false,
		"\r":                                                                false,
		"#" + strings.Repeat("x", 4095):                                     false, // long
	} {
		if got := compareFile(t, filepath.Join(t.TempDir(), "f"), text); got != byRaw {
			t.Errorf("%.40q: read by raw code: %v, want %v", text, got, byRaw)
		}
	}
}

// What main reports is left to main, and nothing waits for a writer.
func TestFilesThatMainRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	shared := filepath.Join(dir, "shared")
	fifo := filepath.Join(dir, "fifo")
	err := os.WriteFile(shared, nil, 0o600)
	if err == nil {
		err = os.Chmod(shared, 0o666)
	}
	if err == nil {
		err = unix.Mkfifo(fifo, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		path  string
		byRaw bool
	}{
		"a file that is missing":               {path, true},
		"a file in a directory that is a file": {shared + "/f", true},
		"a FIFO":                               {fifo, false},
		"a directory":                          {dir, false},
		"a file that every user can write":     {shared, false},
	} {
		if _, got := readFile(c.path); got != c.byRaw {
			t.Errorf("%s: read by raw code: %v", what, got)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"# a\n[defaults]\n", "[server.\"a*\"]\r\n#", "[defaults]\nset = 1",
		"[defaults]\nterm-grace = \"4s\" # a\n idle-freeze=\"10m\"",
	} {
		f.Add(text)
	}
	path := filepath.Join(f.TempDir(), "f")
	f.Fuzz(func(t *testing.T, text string) { compareFile(t, path, text) })
}
