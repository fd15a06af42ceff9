// SPDX-License-Identifier: Apache-2.0

// Package prometheus reads the output of mcpscope metrics, the alerts and the dashboard with Prometheus' own
// parsers.
package prometheus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

var mcpscope string

func TestMain(m *testing.M) {
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		mcpscope = filepath.Join(dir, "mcpscope")
		return nil
	}))
}

// A name may have the characters that a label has to quote.
func TestMetrics(t *testing.T) {
	cmd := exec.Command(mcpscope, "run", "--name", `ser"ver\ of {mine}`, "--", "sh", "-c", "echo ready; cat")
	escape.StartTalk(t, cmd, cmd.Start).Hear("ready") // until the end of the test
	file := filepath.Join(t.TempDir(), "mcpscope.prom")
	if out, err := exec.Command(mcpscope, "metrics", "--textfile", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	metrics, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(metrics, []byte("\nmcpscope_server_processes{")) {
		t.Fatalf("%s, %v", metrics, err)
	}
	promtool(t, metrics, "check", "metrics")
}

// promtool is that of Debian's Prometheus.
func promtool(t *testing.T, input []byte, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		program = "../../.cache/prometheus/usr/bin/promtool"
		if _, err := os.Stat(program); err != nil {
			t.Skip("no promtool: .ci/deps extra unpacks it")
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s in\n%s", err, out, input)
	}
}

const files = "../../docs/reference/prometheus/"

// Each alert fires for its cause, and without a cause none does.
func TestAlerts(t *testing.T) {
	promtool(t, nil, "check", "rules", files+"alerts.yml")
	promtool(t, nil, "test", "rules", "testdata/alerts.yml")
}

// Prometheus accepts each query of the dashboard as a rule.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(files + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules += fmt.Sprintf("  - {record: query:%d, expr: %q}\n", len(rules), target.Expr)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, []byte(rules), "check", "rules", file)
}

// The reference lists each metric that an alert or the dashboard names.
func TestMetricsAreDocumented(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"alerts.yml", "dashboard.json"} {
		text, err := os.ReadFile(files + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`mcpscope_[a-z_]+`).FindAll(text, -1) {
			if !bytes.Contains(reference, append([]byte("`"), name...)) {
				t.Errorf("%s: the reference has no %s", file, name)
			}
		}
	}
}
