// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/doctor"
	"github.com/mcpscope/mcpscope/internal/host"
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

// examined is a host on which servers have groups, and nothing is missing.
func examined() *doctor.Diagnosis {
	return doctor.New(host.Host{
		Kernel: "6.1.0", Init: host.Init{Reaps: true}, Swap: "disk",
		Cgroup:   host.Cgroup{Mount: "/sys/fs/cgroup", Path: "/a\x1b"},
		Backends: []host.Backend{{Name: names.Cgroup, Usable: true, Controllers: []string{"cpu", "memory", "pids"}}},
	})
}

// The status is 0 if nothing has to be repaired, and 1 otherwise. The text and the JSON object have the same.
func TestDoctor(t *testing.T) {
	passed := []doctor.TestCase{{Child: "child", End: "sigterm", Passed: true}}
	failed := []doctor.TestCase{{Child: "setsid", End: "stdin-closed", Problem: "a process is left"}}
	for _, c := range []struct {
		what   string
		flags  doctorFlags
		cases  []doctor.TestCase
		err    error
		want   string
		status int
	}{
		{"a good host", doctorFlags{}, failed, nil, "no problem was found\n", cli.ExitOK},
		{"a selftest", doctorFlags{selftest: true}, passed, nil, "nothing left", cli.ExitOK},
		{"a selftest that fails", doctorFlags{selftest: true}, failed, nil, "FAIL: a process is left", cli.ExitFailure},
		{"a selftest as JSON", doctorFlags{selftest: true, json: true}, failed, nil, `"problem": "a process is left"`, cli.ExitFailure},
		{"no runner", doctorFlags{selftest: true}, nil, errors.New("no runner"), "", cli.ExitOwnFailure},
	} {
		var out, said bytes.Buffer
		selftest := func() ([]doctor.TestCase, error) { return c.cases, c.err }
		status := c.flags.report(examined(), cli.Stdio{Out: &out, Err: &said}, selftest)
		if !strings.Contains(out.String(), c.want) || status != c.status || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: status %d, want %d:\n%s%s", c.what, status, c.status, out.String(), said.String())
		}
	}
}

func TestDoctorTakesNoOperand(t *testing.T) {
	want := said{cli.ExitUsage, "", "mcpscope: doctor: unexpected argument \"now\"\nmcpscope: hint: mcpscope help doctor\n"}
	if s := say("doctor", "now"); s != want {
		t.Errorf("%+v", s)
	}
}
