// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package leaks counts the processes that published MCP servers and agents leave behind when their client is killed or
// its terminal is closed, and prints tables in Markdown. make leaks installs the servers and runs it.
//
// All of it runs in a pid namespace and a network of its own, with loopback alone. What is counted are the processes of
// that namespace, whatever they are called, whoever their parent is, and those of mcpscope included. It asserts nothing
// but that the servers start.
package leaks

import (
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

const (
	serverStarts = 5
	agentStarts  = 3
	// Processes that are there after this time are left. It is longer than the graces of mcpscope: those of an agent in
	// a terminal add up to a little more than 10 s.
	leftAfter = 15 * time.Second
	// startsWithin is how long all starts of a cell may take.
	startsWithin = 3 * time.Minute
)

var mcpscope string

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run()) // there is no test
	}
	if bed.Outermost() {
		if err := leaveNetwork(); err != nil {
			fmt.Fprintln(os.Stderr, "leaks: no network of its own:", err)
			os.Exit(1)
		}
	}
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		mcpscope = filepath.Join(dir, "mcpscope")
		return nil
	}))
}

// leaveNetwork gives this thread, and so what it starts, a network with loopback alone: servers report their use.
func leaveNetwork() error {
	if os.Geteuid() != 0 {
		return nil // bed skips, and says so
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	return exec.Command("ip", "link", "set", "lo", "up").Run()
}

// installed is the directory with the servers.
func installed(b *testing.B) string {
	b.Helper()
	dir := os.Getenv("TESTS_LEAKS")
	if dir == "" {
		b.Skip("TESTS_LEAKS names no directory: make leaks")
	}
	return dir
}

// version is the one of a package of npm, or of the module that a program of Go was built from.
func version(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", name, "package.json"))
	if err == nil {
		var manifest struct{ Version string }
		_ = json.Unmarshal(text, &manifest) // npm has read it
		return manifest.Version
	}
	info, err := buildinfo.ReadFile(filepath.Join(dir, "bin", filepath.Base(name)))
	if err != nil {
		return "?"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// A table has a row for each server or agent.
type table struct {
	what, contained string // titles
	ways            []way
	starts          int
	rows            []row
}

type row struct {
	name      string
	bare      []count // one for each way
	contained count   // of all ways
}

func (t *table) print() {
	var name unix.Utsname
	_ = unix.Uname(&name) // it cannot fail
	release, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	fmt.Printf("\n%s, Linux %s, Node.js %s: processes left %.0f s after the end, of those that ran before.",
		time.Now().Format("2 January 2006"), release, strings.TrimPrefix(output("node", "--version"), "v"),
		leftAfter.Seconds())
	fmt.Printf(" Each cell is of %d starts, the last column of %d for each way.\n\n", t.starts, t.starts)
	fmt.Printf("| %s |", t.what)
	for _, w := range t.ways {
		fmt.Printf(" %s |", w.title)
	}
	fmt.Printf(" %s |\n|---|%s---|\n", t.contained, strings.Repeat("---|", len(t.ways)))
	for _, r := range t.rows {
		fmt.Printf("| %s |", r.name)
		for _, c := range r.bare {
			fmt.Printf(" %v |", c)
		}
		fmt.Printf(" %v |\n", r.contained)
	}
}

func output(name string, args ...string) string {
	text, err := exec.Command(name, args...).Output()
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(text))
}

// A count is of processes.
type count struct{ left, ran int }

func (c *count) add(o count) {
	c.left += o.left
	c.ran += o.ran
}

func (c count) String() string {
	switch {
	case c.ran == 0:
		return "–"
	case c.left == 0:
		return fmt.Sprintf("0 of %d", c.ran)
	}
	return fmt.Sprintf("**%d of %d**", c.left, c.ran)
}

// A running is one client that has its server.
type running struct {
	end    func() // of the client
	beside []int  // processes that are not the server's: the client, and its terminal
}

// measure starts clients, ends them, and counts the processes that ran beside them and those that are left.
func measure(b *testing.B, starts int, start func() (await func() running)) (c count) {
	b.Helper()
	before := processes()
	var waits []func() running
	for range starts {
		waits = append(waits, start())
	}
	var all []running
	beside := map[int]bool{}
	for _, await := range waits {
		r := await()
		all = append(all, r)
		for _, pid := range r.beside {
			beside[pid] = true
		}
	}
	own := func() (own map[int]process) { return without(processes(), before, beside) }
	settle(own)
	c.ran = len(own())
	for _, r := range all {
		r.end()
	}
	for ended := time.Now(); len(own()) > 0 && time.Since(ended) < leftAfter; {
		time.Sleep(50 * time.Millisecond)
	}
	left := own()
	c.left = len(left)
	for pid := range left {
		b.Logf("left: %s", escape.Describe(pid))
	}
	for len(own()) > 0 {
		for pid := range own() {
			_ = unix.Kill(pid, unix.SIGKILL) // in a pid namespace of the test alone
		}
		time.Sleep(10 * time.Millisecond)
	}
	return c
}

// settle waits until servers have started all that they start by themselves.
func settle(own func() map[int]process) {
	const still = time.Second
	seen := own()
	for since, began := time.Now(), time.Now(); time.Since(since) < still && time.Since(began) < startsWithin; {
		time.Sleep(100 * time.Millisecond)
		now := own()
		if len(without(now, seen, nil))+len(without(seen, now, nil)) > 0 {
			since = time.Now()
			seen = now
		}
	}
}

// process is the time of its start: a pid is given again.
type process struct{ started string }

// processes are those of the pid namespace that have not ended.
func processes() map[int]process {
	all := map[int]process{}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 20 || fields[0] == "Z" {
			continue
		}
		var pid int
		if _, err := fmt.Sscan(filepath.Base(dir), &pid); err == nil {
			all[pid] = process{started: fields[19]}
		}
	}
	return all
}

func without(all, others map[int]process, pids map[int]bool) map[int]process {
	rest := map[int]process{}
	for pid, p := range all {
		if others[pid] != p && !pids[pid] {
			rest[pid] = p
		}
	}
	return rest
}
