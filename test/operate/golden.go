// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Golden: the commands print the lines of testdata, but for values that differ from run to run.
// With TESTS_GOLDEN=write the files are written instead.
// It is not for beside other tests, whose trees every world can see.
func Golden(t *testing.T, s Subject) {
	g := newGround(t, s)
	server := g.start([]string{"--term-grace", "300ms"}, g.Probe, "--members", "2")
	for _, line := range []string{"ls", "ls --json", "metrics", "inspect ID", "inspect ID --json"} {
		g.golden(server, line)
	}
	server.settled().Close()                                                        // its helper would sweep the orphan
	orphan := g.start([]string{"--term-grace", "300ms"}, g.Probe, "--members", "1") // its main process dies
	orphan.orphaned()
	for _, line := range []string{"sweep --dry-run --quiet", "sweep --dry-run --json", "sweep --quiet"} {
		g.golden(orphan, line)
	}
}

// golden runs a command and compares what it says with its part of testdata.
func (g *ground) golden(s *server, line string) {
	g.T.Helper()
	got := g.steady(s, g.well(strings.Fields(strings.ReplaceAll(line, "ID", s.id))...))
	file := filepath.Join("..", "operate", "testdata", strings.ReplaceAll(line, " ", "_")+".txt")
	if os.Getenv("TESTS_GOLDEN") == "write" {
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
		g.T.Errorf("%s says\n%s\nwant (%s)\n%s", line, got, file, want)
	}
}

// unsteady are values that differ from run to run, or from kernel to kernel.
var unsteady = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?s),\n      "memory_parts": {.*?\n      }`), ""},
	{regexp.MustCompile(`,\n *"throttled_seconds": [^\n]*`), ""},
	{regexp.MustCompile(`(?s)      "(stdio|ancestry)": [{\[].*?\n      [}\]],?\n`), ""},
	{regexp.MustCompile(` ← .*`), " ← …"},
	{regexp.MustCompile(`(?m)^ *"memory_((peak_)?bytes|source)": .*\n`), ""},
	{regexp.MustCompile(`,"memory_((peak_)?bytes|source)":[^,}]*`), ""}, // on one line
	{regexp.MustCompile(`source="[a-z]*"`), `source="WHERE"`},
	{regexp.MustCompile(`(?m)^mcpscope_server_memory_peak.*\n|^# [A-Z]+ mcpscope_server_memory_peak.*\n`), ""},
	{regexp.MustCompile(`~?\b\d+(\.\d)?[KMG]\b`), "SIZE"},
	{regexp.MustCompile(`(?m)^(memory( of members| parts)?|stdin|stdout|stderr) .*\n`), ""},
	{regexp.MustCompile(`"20\d\d-[^"]*"`), `"TIME"`},
	{regexp.MustCompile(`20\d\d-\d\d-\d\d[T ][^ ]*( [A-Z]+)?`), "TIME"},
	{regexp.MustCompile(`(_seconds|_pid|pid)":( ?)[0-9.e+-]+`), `$1":${2}0`},
	{regexp.MustCompile(`(?m)^mcpscope_leaks .*$`), "mcpscope_leaks 0"}, // a host may have some
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

// orphaned kills both who guard the server.
func (s *server) orphaned() {
	s.ground.T.Helper()
	guard := s.settled() // a helper that runs would stop the server
	defer guard.Close()
	if err := escape.KillTogether(guard, s.Server); err != nil {
		s.ground.T.Fatal(err)
	}
}

// settled returns the guard, when the start of the server was settled.
func (s *server) settled() *escape.Process {
	t := s.ground.T
	t.Helper()
	listed := s.ground.list("inspect", s.id)
	if len(listed) != 1 {
		t.Fatalf("%d servers are listed as %s", len(listed), s.id)
	}
	guard, err := escape.OpenProcess(listed[0].Guard)
	if err != nil {
		t.Fatal(err)
	}
	escape.AwaitSettled(guard)
	return guard
}
