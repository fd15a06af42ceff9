// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"io/fs"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

// A trial reads the reason from the report, no matter which other lines server and run print.
func TestTrialReadsTheReport(t *testing.T) {
	const ended = `{"ended": "2026-11-24T00:00:00Z"`
	for out, want := range map[string]Trial{
		"":        {},
		"noise\n": {},
		`{"cgroup": "/elsewhere", "controllers": ["pids"]}` + "\n" + ended + "}\n": {
			Works: true, Group: true, Position: Position{"/elsewhere", []string{"pids"}},
		},
		`{"cgroup": "/client", "controllers": ["pids"]}` + "\n" + ended + "}\n": {
			Works: true, Position: Position{Cgroup: "/client"},
		},
		ended + `, "error": "no", "hint": "do"}` + "\n": {Reason: "no", Remedy: "do"},
	} {
		var got Trial
		got.read([]byte(out), "/client")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", out, got, want)
		}
	}
}

// Without its programs, no backend works, and the reason is that of the operating system.
func TestTrialsWithoutARunner(t *testing.T) {
	programs := Programs{runner: "/no/such/mcpscope", tool: "/no/such/mcpscopectl"}
	if got := tryBackend(programs, names.Tree); got.Works || !strings.Contains(got.Reason, "no such file") {
		t.Errorf("%+v", got)
	}
	got := TryGateway(programs, names.Tree, false)
	if got.Backend != "" || !strings.Contains(got.Reason, "no such file") || len(got.Remedies) > 0 {
		t.Errorf("%+v", got)
	}
	cases := Selftest(programs, names.Tree)
	if len(cases) != len(selftestChildren)*len(selftestEnds) {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		if c.Passed || !strings.Contains(c.Problem, "no such file") {
			t.Errorf("%+v", c)
		}
	}
	_, err := programs.runProbe(names.Tree)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A runner that writes no report has ended early.
func TestTrialWithoutAReport(t *testing.T) {
	file, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	programs := Programs{runner: file}
	got := tryBackend(programs, names.Tree)
	if got.Works || got.Reason != "mcpscope run wrote no report" {
		t.Errorf("%+v", got)
	}
	gateway := TryGateway(programs, names.Tree, false)
	if gateway.Backend != "" || gateway.Reason != "mcpscope gateway ended without a server" {
		t.Errorf("%+v", gateway)
	}
	for _, c := range Selftest(programs, names.Tree) {
		if c.Passed || !strings.HasPrefix(c.Problem, "the server did not start: ") {
			t.Errorf("%+v", c)
		}
	}
}
