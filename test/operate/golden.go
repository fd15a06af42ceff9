// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Golden: what the commands print is what testdata has, but for what differs from run to run.
// With MCPSCOPE_GOLDEN=write the files are written instead.
// It is not for beside other tests, whose trees every world can see.
func Golden(t *testing.T, s Subject) {
	g := newGround(t, s)
	server := g.start([]string{"--term-grace", "300ms"}, g.Probe, "--members", "2")
	for _, args := range [][]string{
		{"ls"}, {"ls", "--json"}, {"ls", "--format", "{{.Name}} {{.State}} {{.Backend}}"}, {"ls", "-q"}, {"metrics"},
		{"inspect", server.id}, {"inspect", server.id, "--json"},
		{"freeze", server.id}, {"thaw", server.id}, {"stop", server.id},
	} {
		g.golden(server, args...)
	}
	orphan := g.plain()
	orphan.orphaned()
	for _, args := range [][]string{
		{"ls", "--orphans"}, {"sweep", "--dry-run"}, {"sweep", "--dry-run", "--json"}, {"sweep"},
		{"ls"}, {"ls", "--json"}, {"stop", "nobody"},
	} {
		g.golden(orphan, args...)
	}
}

// golden runs a command and compares what it says with its part of testdata.
func (g *ground) golden(s *server, args ...string) {
	g.T.Helper()
	o := g.run(args...)
	got := o.Stdout
	if o.Stderr != "" {
		got += "--- stderr, status " + fmt.Sprint(o.Status.ExitStatus()) + "\n" + o.Stderr
	}
	got = g.steady(s, got)
	g.goldens++
	words := strings.ReplaceAll(strings.Join(args, "_"), s.id, "ID")
	file := filepath.Join("..", "operate", "testdata", fmt.Sprintf("%02d_%s.txt", g.goldens, unsafe.ReplaceAllString(words, "")))
	if os.Getenv("MCPSCOPE_GOLDEN") == "write" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			g.T.Error(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		g.T.Error(err)
	}
	if got != string(want) {
		g.T.Errorf("%q says\n%s\nwant (%s)\n%s", args, got, file, want)
	}
}

// unsafe is what a file had better not be called.
var unsafe = regexp.MustCompile(`[^a-zA-Z_-]`)

// unsteady is what differs from run to run, or from kernel to kernel.
var unsteady = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?s)      "(resources|pressure|stdio|ancestry)": [{\[].*?\n      [}\]],?\n`), ""},
	{regexp.MustCompile(` ← .*`), " ← …"},
	{regexp.MustCompile(`(?m)^ *"memory_((peak_)?bytes|source)": .*\n`), ""},
	{regexp.MustCompile(`source="[a-z]*"`), `source="WHERE"`},
	{regexp.MustCompile(`(?m)^mcpscope_server_memory_peak.*\n|^# [A-Z]+ mcpscope_server_memory_peak.*\n`), ""},
	{regexp.MustCompile(`~?\b\d+(\.\d)?[KMG]\b`), "SIZE"},
	{regexp.MustCompile(`(?m)^((cpu |memory |io )?pressure|memory( of members)?|pids|io|peak|stdin|stdout|stderr) .*\n`), ""},
	{regexp.MustCompile(`"20\d\d-[^"]*"`), `"TIME"`},
	{regexp.MustCompile(`20\d\d-\d\d-\d\d[T ][^ ]*( [A-Z]+)?`), "TIME"},
	{regexp.MustCompile(`(_seconds|_pid|pid)": [0-9.e+-]+`), `$1": 0`},
	{regexp.MustCompile(`(?m)^mcpscope_leaks .*$`), "mcpscope_leaks 0"}, // a host may have some
	{regexp.MustCompile(`(?m)^mcpscope_server_pressure_seconds_total.*\n`), ""},
	{regexp.MustCompile(`(?m)^(mcpscope_\S*(seconds|bytes)\S*) .*$`), `$1 0`},
	{regexp.MustCompile(`\[\d+\]|\b\d{2,}\b`), "[0]"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(s|ms|m|h)\b`), "0s"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "}, // a table
	{regexp.MustCompile(`(?m) +$`), ""},
}

// steady is the text without that.
func (g *ground) steady(s *server, text string) string {
	text = strings.NewReplacer(s.id, "ID", g.name, "NAME", g.Program, "PROGRAM", s.members.Address, "@SOCKET", s.ground.Probe, "PROBE").Replace(text)
	for _, u := range unsteady {
		text = u.what.ReplaceAllString(text, u.with)
	}
	return text
}
