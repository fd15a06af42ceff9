// SPDX-License-Identifier: Apache-2.0

// Package prometheus reads the output of mcpscope metrics with Prometheus' own parsers.
package prometheus

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

var mcpscope string

func TestMain(m *testing.M) {
	bed.Main(m, func() (func(), error) {
		return escape.BuildTemporary(func(dir string) map[string][]string {
			mcpscope = filepath.Join(dir, "mcpscope")
			return nil
		})
	})
}

// name has the characters that a label has to quote.
const name = `ser"ver\ of {mine}`

// figures is a part of what ls prints of a server.
type figures struct {
	ID, Name  string
	Processes int
	CPU       float64 `json:"cpu_seconds"`
}

func output(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(mcpscope, args...).Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out
}

func TestMetrics(t *testing.T) {
	cmd := exec.Command(mcpscope, "run", "--name", name, "--", "sh", "-c", "echo ready; cat | cat")
	server := escape.StartTalk(t, cmd, cmd.Start)
	server.Hear("ready")
	server.Tell("both run")
	server.Hear("both run")
	text := filepath.Join(t.TempDir(), "mcpscope.prom")
	output(t, "metrics", "--textfile", text)
	metrics, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	var listed struct{ Servers []figures }
	if err := json.Unmarshal(output(t, "ls", "--json"), &listed); err != nil {
		t.Fatal(err)
	}
	var ls figures
	for _, s := range listed.Servers {
		if s.Name == name {
			ls = s
		}
	}
	if ls.ID == "" {
		t.Fatalf("ls does not list the server: %+v", listed)
	}

	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	if err != nil {
		t.Fatalf("%v in\n%s", err, metrics)
	}
	values := map[string]float64{}
	for family, f := range families {
		if f.GetHelp() == "" || f.GetType().String() == "UNTYPED" {
			t.Errorf("%s has no type or no help", family)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "id" && l.GetValue() == ls.ID {
					values[family] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
				if l.GetName() == "name" && l.GetValue() == name {
					values["with the name"]++
				}
			}
		}
	}
	if values["mcpscope_server_processes"] != float64(ls.Processes) || ls.Processes != 3 || values["with the name"] == 0 {
		t.Errorf("%v, and ls has %+v, in\n%s", values, ls, metrics)
	}
	if cpu := values["mcpscope_server_cpu_seconds_total"]; cpu <= 0 || cpu > ls.CPU {
		t.Errorf("CPU is %v, and ls has %v", cpu, ls.CPU)
	}
	if !strings.Contains(string(metrics), `mcpscope_servers{state="running"}`) {
		t.Errorf("no number of servers in\n%s", metrics)
	}
	t.Run("promtool", func(t *testing.T) { checkByPromtool(t, metrics) })
}

// checkByPromtool has Debian's Prometheus check the same text.
func checkByPromtool(t *testing.T, metrics []byte) {
	program, err := exec.LookPath("promtool")
	if err != nil {
		program = "../../.cache/prometheus/usr/bin/promtool"
		if _, err := os.Stat(program); err != nil {
			t.Skip("no promtool: .ci/deps extra unpacks it")
		}
	}
	cmd := exec.Command(program, "check", "metrics")
	cmd.Stdin = bytes.NewReader(metrics)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s in\n%s", err, out, metrics)
	}
}
