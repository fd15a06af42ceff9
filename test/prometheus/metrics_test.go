// SPDX-License-Identifier: Apache-2.0

// Package prometheus reads the output of mcpscope metrics, the rules and the dashboards with Prometheus' own
// parsers, and has a real Prometheus scrape simulated hosts.
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
	cmd := exec.Command(find(t, "promtool"), args...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s in\n%s", err, out, input)
	}
}

const files = "../../docs/reference/prometheus/"

// Each alert fires for its cause, and without a cause none does; each recorded sum is right.
func TestRules(t *testing.T) {
	promtool(t, nil, "check", "rules", files+"alerts.yml", files+"rules.yml")
	promtool(t, nil, "test", "rules", "testdata/alerts.yml", "testdata/rules.yml")
}

// A panel is one of a dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

func panelsOf(t *testing.T, file string) []panel {
	t.Helper()
	text, err := os.ReadFile(files + file)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// Prometheus accepts each query of a dashboard as a rule.
func TestDashboards(t *testing.T) {
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for _, name := range []string{"dashboard.json", "hosts.json"} {
		for _, panel := range panelsOf(t, name) {
			for _, target := range panel.Targets {
				rules += fmt.Sprintf("  - {record: query:%d, expr: %q}\n", len(rules), target.Expr)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	write(t, file, rules)
	promtool(t, []byte(rules), "check", "rules", file)
}

// The reference lists each metric that a rule or a dashboard names.
func TestMetricsAreDocumented(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	ours := regexp.MustCompile(`[^a-z:](mcpscope_[a-z_]+)`) // what rules record has a colon before it
	for _, file := range []string{"alerts.yml", "rules.yml", "dashboard.json", "hosts.json"} {
		text, err := os.ReadFile(files + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range ours.FindAllSubmatch(text, -1) {
			if !bytes.Contains(reference, append([]byte("`"), match[1]...)) {
				t.Errorf("%s: the reference has no %s", file, match[1])
			}
		}
	}
}
