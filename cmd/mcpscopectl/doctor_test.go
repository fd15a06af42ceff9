// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/doctor"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// replaceRunner puts a program with that text beside the test until it has finished, or none for "".
func replaceRunner(t *testing.T, text string) {
	t.Helper()
	own, err := programs.Own()
	if err != nil {
		t.Fatal(err)
	}
	runner := filepath.Join(filepath.Dir(own), programs.Runner)
	away := runner + ".away"
	if err := os.Rename(runner, away); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Rename(away, runner); err != nil {
			t.Error(err)
		}
	})
	if text == "" {
		return
	}
	if err := os.WriteFile(runner, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// examined are facts of a host on which that backend works, or no backend for "".
func examined(b names.Backend) doctor.Facts {
	f := doctor.Facts{Mcpscope: "v1", UID: 1000}
	f.Host.Kernel = "6.1.0"
	f.Host.Init.Reaps = true
	f.Host.Swap = "disk"
	f.Host.Cgroup = doctor.Cgroup{Mount: "/sys/fs/cgroup", Path: "/a\x1b"}
	if b == "" {
		f.Trials = []doctor.Trial{{Backend: names.Tree, Reason: "no fork", Remedy: "raise the limit"}}
		return f
	}
	position := doctor.Position{Cgroup: "/mcp.slice", Controllers: []string{"cpu", "memory", "pids"}}
	f.Trials = []doctor.Trial{{Backend: b, Works: true, Milliseconds: 12, Group: b != names.Tree, Position: position}}
	return f
}

// The status is 0 if a server gets its own group and nothing has to be repaired, and 1 otherwise. The output is
// the same for both.
func TestDoctor(t *testing.T) {
	passed := []doctor.TestCase{{Child: "child", End: "sigterm", Passed: true}}
	failed := []doctor.TestCase{{Child: "setsid", End: "stdin-closed", Problem: "a process is left after 1m0s"}}
	const host = `
  kernel          Linux 6.1.0
  hierarchy       v2 at /sys/fs/cgroup; mcpscope runs in /a?
  swap            a disk: the memory of idle servers can be reclaimed (run --idle-freeze); zram is faster
`
	const good = `mcpscope run uses cgroup: a group below mcp.slice in the cgroup2 hierarchy

  cgroup          works, in 12 ms; limits possible: cpu, memory, pids
` + host
	const none = `mcpscope run fails: no backend works here

  tree            no: no fork
                  → raise the limit
` + host
	for _, c := range []struct {
		what   string
		flags  doctorFlags
		facts  doctor.Facts
		cases  []doctor.TestCase
		want   string
		status int
	}{
		{"a good host", doctorFlags{}, examined(names.Cgroup), failed, good, cli.ExitOK},
		{"no group", doctorFlags{}, examined(names.Tree), nil, `mcpscope run uses tree: no control group, which is weaker; --require refuses it

  tree            works, in 12 ms
` + host, cli.ExitFailure},
		{"no backend", doctorFlags{}, examined(""), nil, none, cli.ExitFailure},
		{"a selftest", doctorFlags{selftest: true}, examined(names.Cgroup), passed,
			good + "\nselftest on cgroup\n  child           sigterm         nothing left\n", cli.ExitOK},
		{"a selftest that fails", doctorFlags{selftest: true}, examined(names.Cgroup), failed,
			good + "\nselftest on cgroup\n  setsid          stdin-closed    FAIL: a process is left after 1m0s\n", cli.ExitFailure},
		{"a selftest without a backend", doctorFlags{selftest: true}, examined(""), failed, none, cli.ExitFailure},
	} {
		t.Run(c.what, func(t *testing.T) {
			var out bytes.Buffer
			selftest := func(names.Backend) []doctor.TestCase { return c.cases }
			status := c.flags.report(c.facts, cli.Stdio{Out: &out}, selftest)
			if out.String() != c.want || status != c.status {
				t.Errorf("status %d, want %d:\n%s\nwant\n%s", status, c.status, out.String(), c.want)
			}
		})
	}
}

// The JSON object has all fields on one level, and the selftest, and its status is that of the text.
func TestDoctorJSON(t *testing.T) {
	const want = `{
  "version": 1,
  "mcpscope": "v1",
  "uid": 1000,
  "backend": "cgroup",
  "group": true,
  "backends": [
    {
      "backend": "cgroup",
      "works": true,
      "milliseconds": 12,
      "group": true,
      "cgroup": "/mcp.slice",
      "controllers": [
        "cpu",
        "memory",
        "pids"
      ]
    }
  ],
  "host": {
    "kernel": "6.1.0",
    "cgroup": {
      "mount": "/sys/fs/cgroup",
      "path": "/a\u001b",
      "hybrid": false
    },
    "lingering": false,
    "init": {
      "reaps": true
    },
    "swap": "disk"
  },
  "leaks": 2,
  "settings": [
    "/f:5: unknown key"
  ],
  "selftest": [
    {
      "child": "child",
      "end": "sigterm",
      "passed": true
    }
  ]
}
`
	facts := examined(names.Cgroup)
	facts.Findings.Leaks = 2
	facts.Findings.Settings = []string{"/f:5: unknown key"}
	f := doctorFlags{json: true, selftest: true}
	var out bytes.Buffer
	status := f.report(facts, cli.Stdio{Out: &out}, func(names.Backend) []doctor.TestCase {
		return []doctor.TestCase{{Child: "child", End: "sigterm", Passed: true}}
	})
	if out.String() != want || status != cli.ExitFailure {
		t.Errorf("status %d:\n%s\nwant\n%s", status, out.String(), want)
	}
}

// Without its runner, doctor itself has failed.
func TestDoctorWithoutARunner(t *testing.T) {
	replaceRunner(t, "")
	s := say("doctor")
	const want = "mcpscope: cannot examine this host: mcpscope is not installed: there is no "
	if s.status != cli.ExitOwnFailure || s.out != "" || !strings.HasPrefix(s.err, want) {
		t.Errorf("%+v", s)
	}
}

func TestDoctorTakesNoOperand(t *testing.T) {
	want := said{cli.ExitUsage, "", "mcpscope: doctor: unexpected argument \"now\"\nmcpscope: hint: mcpscope help doctor\n"}
	if s := say("doctor", "now"); s != want {
		t.Errorf("%+v", s)
	}
}

// The server of a trial prints its position, and ends with its stdin.
func TestProbe(t *testing.T) {
	stdin := os.Stdin
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	os.Stdin = null
	defer func() { os.Stdin = stdin }()
	s := say(doctor.ProbeCommand)
	var position doctor.Position
	err = json.Unmarshal([]byte(s.out), &position)
	if err != nil || s.status != cli.ExitOK || s.err != "" || position.Cgroup != doctor.OwnPosition().Cgroup {
		t.Errorf("%+v, %v", s, err)
	}
}

// The gateway of a trial that cannot start its server says why: doctor shows the line.
func TestGatewayProbeWithoutDescriptors(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 3, Max: before.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	s := say(doctor.GatewayProbeCommand)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	const want = "mcpscope: cannot start a server: "
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, want) || !strings.Contains(s.err, "too many open files") {
		t.Errorf("%+v, want %q and the reason", s, want)
	}
}
