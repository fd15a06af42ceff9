//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/atomicfile"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

type metricsFlags struct {
	filter
	textfile string
	listen   string
}

func metricsCommand(io cli.Stdio) *cobra.Command {
	var f metricsFlags
	c := command(spec{
		use: "metrics [flags]", short: "print or serve figures as OpenMetrics",
		examples: `  mcpscope metrics
  mcpscope metrics --all-users --listen 9500
  mcpscope metrics --textfile /var/lib/node_exporter/mcpscope.prom
`,
		long: `Prints figures of the servers that run as OpenMetrics text.

For Prometheus, with mcpscope metrics --all-users --listen 9500 as a service of root:

  scrape_configs:
    - job_name: mcpscope
      static_configs: [{targets: ["127.0.0.1:9500"]}]`,
	}, func(operands []string) int { return f.run(io) })
	fs := c.Flags()
	allUsers(fs, &f.allUsers)
	fs.StringVar(&f.textfile, "textfile", "", "replace that file, atomically, instead of printing: for node_exporter's textfile collector: `PATH`")
	fs.Func("listen", "answer GET /metrics until SIGTERM. `ADDR` is a port of 127.0.0.1 (9500), address:port where others are to be let in, or fd:N for a socket that systemd passes on (Accept=no: fd:3)", func(s string) (err error) {
		f.listen, err = listenAddress(s)
		return err
	})
	return c
}

func (f *metricsFlags) run(io cli.Stdio) int {
	if f.listen != "" {
		if f.textfile != "" {
			return io.Mistake("metrics", "--textfile and --listen exclude each other")
		}
		return f.serve(io)
	}
	text, err := f.text()
	if err != nil {
		return io.Cannot("list servers", err)
	}
	if f.textfile == "" {
		_, _ = io.Out.Write(text) // whoever reads has gone
		return cli.ExitOK
	}
	if err := atomicfile.Write(f.textfile, text, 0o644); err != nil {
		return io.Cannot("write metrics", err)
	}
	return cli.ExitOK
}

// metric is one family of figures.
type metric struct {
	name, kind, unit, help string
	value                  func(view) (float64, bool)
}

var families = []metric{
	{"mcpscope_server_processes", "gauge", "", "Processes of the server.", func(v view) (float64, bool) { return float64(v.Processes), true }},
	{"mcpscope_server_cpu_seconds", "counter", "seconds", "CPU that the server has used.", func(v view) (float64, bool) { return v.CPU, true }},
	{"mcpscope_server_memory_bytes", "gauge", "bytes", "Memory of the server now.", func(v view) (float64, bool) { return number(v.Memory) }},
	{"mcpscope_server_memory_peak_bytes", "gauge", "bytes", "Most memory that the server has had.", func(v view) (float64, bool) { return number(v.Peak) }},
	{"mcpscope_server_memory_limit_bytes", "gauge", "bytes", "Most memory that the server may have.", func(v view) (float64, bool) { return number(v.limit("memory.max")) }},
	{"mcpscope_server_processes_limit", "gauge", "", "Most processes and threads that the server may have.", func(v view) (float64, bool) { return number(v.limit("pids.max")) }},
	{"mcpscope_server_cpu_limit_processors", "gauge", "processors", "Most processors that the server may use.", cpuLimit},
	{"mcpscope_server_oom_kills", "counter", "", "Processes of the server that the kernel killed for lack of memory.", func(v view) (float64, bool) { return float64(v.short.OOMKills), true }},
	{"mcpscope_server_forks_refused", "counter", "", "How often a process of the server could not fork for a limit.", func(v view) (float64, bool) { return float64(v.short.PIDsRefused), true }},
	{"mcpscope_server_start_time_seconds", "gauge", "seconds", "When the server was started, since the epoch.", startTime},
}

func number(n *uint64) (float64, bool) {
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

func startTime(v view) (float64, bool) {
	if v.Started == nil {
		return 0, false
	}
	return float64(v.Started.UnixMilli()) / 1000, true
}

// cpuLimit reads "QUOTA PERIOD".
func cpuLimit(v view) (float64, bool) {
	var quota, period float64
	n, _ := fmt.Sscanf(v.Limits["cpu.max"], "%g %g", &quota, &period)
	return quota / period, n == 2 && period > 0
}

// writeMetrics writes OpenMetrics text (prometheus.io/docs/specs/om). It is written by
// hand: the library would cost every start 1.1 ms.
func writeMetrics(out *bytes.Buffer, views []view) {
	for _, m := range families {
		header(out, m)
		suffix := ""
		if m.kind == "counter" {
			suffix = "_total"
		}
		for _, v := range views {
			if value, ok := m.value(v); ok {
				fmt.Fprintf(out, "%s%s{%s} %g\n", m.name, suffix, labels(v), value)
			}
		}
	}
	writePressure(out, views)
	states := map[scope.State]int{scope.Running: 0, scope.Ending: 0, scope.Frozen: 0, scope.Orphaned: 0}
	for _, v := range views {
		states[v.State]++
	}
	header(out, metric{name: "mcpscope_servers", kind: "gauge", help: "Servers, by state."})
	for _, state := range []scope.State{scope.Running, scope.Ending, scope.Frozen, scope.Orphaned} {
		fmt.Fprintf(out, "mcpscope_servers{state=%s} %d\n", label(string(state)), states[state])
	}
	out.WriteString("# EOF\n")
}

// writePressure has a line for each resource, of the time in which some members had to wait for
// it, and of that in which all had.
func writePressure(out *bytes.Buffer, views []view) {
	header(out, metric{name: "mcpscope_server_pressure_seconds", kind: "counter", unit: "seconds", help: "Time in which members of the server had to wait for a resource."})
	for _, v := range views {
		for _, what := range sortedKeys(v.short.Pressure) {
			line := func(kind string, seconds float64) {
				fmt.Fprintf(out, "mcpscope_server_pressure_seconds_total{%s,resource=%s,kind=%s} %g\n", labels(v), label(what), label(kind), seconds)
			}
			p := v.short.Pressure[what]
			line("some", p.Some)
			if p.Full != nil {
				line("full", *p.Full)
			}
		}
	}
}

func labels(v view) string {
	return fmt.Sprintf("id=%s,name=%s,client=%s,backend=%s", label(v.ID), label(v.Name), label(v.Client.Name), label(string(v.Backend)))
}

func header(out *bytes.Buffer, m metric) {
	fmt.Fprintf(out, "# TYPE %s %s\n", m.name, m.kind)
	if m.unit != "" {
		fmt.Fprintf(out, "# UNIT %s %s\n", m.name, m.unit)
	}
	fmt.Fprintf(out, "# HELP %s %s\n", m.name, m.help)
}

// label quotes a value, which may be any bytes; OpenMetrics is UTF-8.
func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(cli.OneLine(strings.ToValidUTF8(s, "\uFFFD"))) + `"`
}
