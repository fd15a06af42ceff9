// SPDX-License-Identifier: Apache-2.0

// Package prometheus reads the output of mcpscope metrics with Prometheus' own parsers.
package prometheus

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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

func TestMetrics(t *testing.T) {
	cmd := exec.Command(mcpscope, "run", "--name", name, "--", "sh", "-c", "echo ready; cat | cat")
	server := escape.StartTalk(t, cmd, cmd.Start)
	server.Hear("ready")
	server.Tell("both run")
	server.Hear("both run")
	text := filepath.Join(t.TempDir(), "mcpscope.prom")
	if out, err := exec.Command(mcpscope, "metrics", "--textfile", text).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	metrics, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
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
				if l.GetName() == "name" && l.GetValue() == name {
					values[family] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
	}
	if values["mcpscope_server_processes"] != 3 || values["mcpscope_server_cpu_seconds_total"] <= 0 {
		t.Errorf("%v in\n%s", values, metrics)
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
