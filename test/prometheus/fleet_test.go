// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/causes"
)

// withoutServers is what the guide has for many hosts.
const withoutServers = `
    metric_relabel_configs:
      - {source_labels: [id], regex: .+, action: drop}
`

// configure returns a configuration that finds the targets in a file, as the guide has it.
func configure(tb testing.TB, interval, more string, targets []string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "hosts.yml")
	write(tb, file, "- targets: ["+strings.Join(targets, ", ")+"]\n")
	return fmt.Sprintf(`
global: {scrape_interval: %s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}
rule_files: [alerts.yml, rules.yml]
scrape_configs:
  - job_name: mcpscope
    file_sd_configs: [{files: [%q]}]
%s`, interval, file, strings.TrimLeft(more, "\n"))
}

// A Prometheus that finds several hosts and drops the figures of each server has the sums and the alerts of
// all hosts all the same.
func TestManyHosts(t *testing.T) {
	const hosts, servers = 3, 40
	var targets []string
	var made []*simulatedHost
	for i := range hosts {
		h := startHost(t, i, servers)
		made = append(made, h)
		targets = append(targets, h.address)
	}
	silent := startHost(t, hosts, 0)
	targets = append(targets, silent.address)
	p := startPrometheus(t, configure(t, "1s", withoutServers, targets), soon)
	p.await("all hosts", func() bool { return p.number("count(up == 1)") == hosts+1 })
	if n := p.number(`count({id=~".+"})`); n != 0 {
		t.Errorf("%v series of single servers", n)
	}
	p.await("the sums", func() bool { return p.number("sum(client:mcpscope_servers:sum)") == hosts*servers })
	if n := p.number(`instance:mcpscope_idle_memory_bytes:sum{instance="` + targets[0] + `"}`); n <= 0 {
		t.Errorf("idle servers hold %v bytes on the first host", n)
	}
	const others = `ALERTS{alertname!="McpMetricsMissing"}` // a scrape may be late where other load is
	if found := p.query(others); len(found) > 0 {
		t.Errorf("alerts without a cause: %v", found)
	}

	made[0].set(func(h *simulatedHost) { h.orphans = 2; h.leaks = 3 })
	made[1].set(func(h *simulatedHost) { h.gateways = 1; h.ends[causes.MemoryExhausted]++ })
	made[2].set(func(h *simulatedHost) { h.orphans = 1; h.unread = true })
	silent.close()
	want := []string{
		"McpGatewayContainsNothing " + targets[1], "McpMetricsMissing " + silent.address,
		"McpServerEndedOutOfMemory " + targets[1], "McpServersLeaked " + targets[0],
		"McpServersOrphaned " + targets[0], "McpServersOrphaned " + targets[2],
	}
	var got []string
	p.await("the alerts "+strings.Join(want, ", "), func() bool {
		got = firing(p)
		return slices.Equal(got, want)
	})
	p.await("the sum of the leaks", func() bool { // each file of rules is evaluated at its own time
		return p.number("job:mcpscope_leaks:sum") == 3
	})
	checkDashboard(t, p, "hosts.json", "not used for an hour")
	checkHostsWithLeaks(t, p, map[string]float64{targets[0]: 5, targets[2]: 1})
}

// checkHostsWithLeaks compares the panel with the sums of orphans and leaks. A host whose leaks nobody knows
// is there with its orphans.
func checkHostsWithLeaks(t *testing.T, p *prometheus, want map[string]float64) {
	t.Helper()
	for _, panel := range panelsOf(t, "hosts.json") {
		if panel.Title != "Hosts with the most orphans and leaks" {
			continue
		}
		got := map[string]float64{}
		for _, s := range p.query(strings.ReplaceAll(panel.Targets[0].Expr, "$instance", ".*")) {
			got[s.Metric["instance"]] = s.number(t)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", panel.Title, got, want)
		}
		return
	}
	t.Error("there is no such panel")
}

// With the figures of each server, the rules about them work as well.
func TestFiguresOfServers(t *testing.T) {
	h := startHost(t, 0, 40)
	p := startPrometheus(t, configure(t, "1s", "", []string{h.address}), soon)
	p.await("a rate of each client", func() bool {
		return p.number("count(instance_client:mcpscope_cpu_seconds:rate5m)") == 4 // of 10 servers each
	})
	p.await("unused memory", func() bool {
		return p.number("sum(instance_client:mcpscope_unused_memory_bytes:sum)") > 0
	})
	checkDashboard(t, p, "dashboard.json")
}

var waits = regexp.MustCompile(`(?m)^        for: .*$`)

// soon makes alerts fire without their waiting times.
func soon(rules string) string { return waits.ReplaceAllString(rules, "        for: 0s") }

// firing are the alerts, each with its host.
func firing(p *prometheus) []string {
	names := map[string]bool{}
	for _, s := range p.query(`ALERTS{alertstate="firing"}`) {
		names[s.Metric["alertname"]+" "+s.Metric["instance"]] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// checkDashboard asks each query of a dashboard as Grafana does. All but those with these legends have an
// answer.
func checkDashboard(t *testing.T, p *prometheus, file string, empty ...string) {
	t.Helper()
	for _, panel := range panelsOf(t, file) {
		for _, target := range panel.Targets {
			expression := strings.ReplaceAll(target.Expr, "$instance", ".*")
			if n := len(p.query(expression)); (n > 0) == slices.Contains(empty, target.LegendFormat) {
				t.Errorf("%s: %q has %d samples: %s", file, panel.Title, n, expression)
			}
		}
	}
}
