// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

type metricsFlags struct {
	filter
	textfile string
	listen   string
}

func metricsCommand(io cli.Stdio) *cobra.Command {
	var f metricsFlags
	c := command(spec{
		use: "metrics [flags]", short: "print or serve figures for Prometheus",
		examples: `  mcpscope metrics
  mcpscope metrics --all-users --listen 9500
  mcpscope metrics --textfile /var/lib/node_exporter/mcpscope.prom
`,
		long: `Prints figures of the servers that run, as OpenMetrics text.

For Prometheus, with mcpscope metrics --all-users --listen 9500 as a service of root:

  scrape_configs:
    - job_name: mcpscope
      static_configs: [{targets: ["127.0.0.1:9500"]}]`,
	}, func(operands []string) int { return f.run(io) })
	fs := c.Flags()
	allUsers(fs, &f.allUsers)
	fs.StringVar(&f.textfile, "textfile", "", "replace that file, atomically, instead of printing, in the text format of Prometheus: for node_exporter's textfile collector: `PATH`")
	fs.Func("listen", "answer GET /metrics until SIGTERM, in the format that is asked for. `ADDR` is a port of 127.0.0.1 (9500), address:port where others are to be let in, or fd:N for a socket that systemd passes on (Accept=no: fd:3)", readBy(&f.listen, listenAddress))
	return c
}

func (f *metricsFlags) run(io cli.Stdio) int {
	switch {
	case f.listen != "" && f.textfile != "":
		return io.Mistake("metrics", "--textfile and --listen exclude each other")
	case f.listen != "":
		return serve(sourceOf(&f.filter), f.listen, io)
	}
	format := expfmt.NewFormat(expfmt.TypeOpenMetrics)
	if f.textfile != "" {
		format = expfmt.NewFormat(expfmt.TypeTextPlain)
	}
	text, err := metricsText(sourceOf(&f.filter), format)
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

// measured is a server with what it lacked so far.
type measured struct {
	view
	fleet.Shortages
}

// measured measures all servers.
func measureAll(f *filter) ([]measured, error) {
	servers, err := f.list()
	defer closeAll(servers)
	if err != nil {
		return nil, err
	}
	var all []measured
	for _, s := range servers {
		if v, err := look(s); err == nil { // otherwise it has ended meanwhile
			all = append(all, measured{v, s.Shortages()})
		}
	}
	return all, nil
}

// source is where figures come from.
type source struct {
	servers func() ([]measured, error)
	leaks   func() int
}

func sourceOf(f *filter) source {
	return source{func() ([]measured, error) { return measureAll(f) }, func() int { return countLeaks(whose(f.allUsers)) }}
}

// metricsText is what a scraper would get.
func metricsText(of source, format expfmt.Format) ([]byte, error) {
	families, err := registry(of).Gather()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	enc := expfmt.NewEncoder(&text, format)
	for _, family := range families {
		if err := enc.Encode(family); err != nil {
			return nil, err
		}
	}
	if closer, ok := enc.(expfmt.Closer); ok {
		err = closer.Close() // "# EOF"
	}
	return text.Bytes(), err
}

// registry has the servers alone: figures of this process are of no interest to anyone.
func registry(of source) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{of})
	return r
}

// metric is one figure of each server.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(measured) (float64, bool)
	more  func(measured) string // the value of one more label; may be nil
}

var labels = []string{"id", "name", "client", "backend"}

func describe(name, unit, help string, more ...string) *prometheus.Desc {
	return prometheus.V2.NewDesc("mcpscope_"+name, help, prometheus.UnconstrainedLabels(append(labels[:len(labels):len(labels)], more...)), nil, prometheus.WithUnit(unit))
}

func gauge(name, unit, help string, value func(measured) (float64, bool)) metric {
	return metric{desc: describe(name, unit, help), kind: prometheus.GaugeValue, value: value}
}

func counter(name, unit, help string, value func(measured) (float64, bool)) metric {
	return metric{desc: describe(name+"_total", unit, help), kind: prometheus.CounterValue, value: value}
}

// memoryNow has one more label: a sum over processes is no count of the kernel's.
func memoryNow() metric {
	m := metric{kind: prometheus.GaugeValue, value: func(v measured) (float64, bool) { return number(v.Memory) }}
	m.desc = describe("server_memory_bytes", "bytes", "Memory of the server now: as its group has it, or the scope around that, or a sum over its processes (members).", "source")
	m.more = func(v measured) string { return string(v.MemoryFrom) }
	return m
}

var (
	families = []metric{
		gauge("server_processes", "", "Processes of the server.", func(v measured) (float64, bool) { return float64(v.Processes), true }),
		counter("server_cpu_seconds", "seconds", "CPU that the server has used.", func(v measured) (float64, bool) { return v.CPU, true }),
		memoryNow(),
		gauge("server_memory_peak_bytes", "bytes", "Most memory that the server has had.", func(v measured) (float64, bool) { return number(v.Peak) }),
		gauge("server_memory_limit_bytes", "bytes", "Most memory that the server may have.", func(v measured) (float64, bool) { return number(v.limit("memory.max")) }),
		gauge("server_processes_limit", "", "Most processes and threads that the server may have.", func(v measured) (float64, bool) { return number(v.limit("pids.max")) }),
		gauge("server_cpu_limit_processors", "processors", "Most processors that the server may use.", cpuLimit),
		counter("server_oom_kills", "", "Processes of the server that the kernel killed for lack of memory.", func(v measured) (float64, bool) { return float64(v.OOMKills), true }),
		counter("server_forks_refused", "", "How often a process of the server could not fork for a limit.", func(v measured) (float64, bool) { return float64(v.PIDsRefused), true }),
		gauge("server_start_time_seconds", "seconds", "When the server was started, since the epoch.", startTime),
	}
	byState = prometheus.NewDesc("mcpscope_servers", "Servers, by state.", []string{"state"}, nil)
	surplus = prometheus.NewDesc("mcpscope_duplicate_servers", "Servers beyond the first of one name that a client has.", nil, nil)
	leaked  = prometheus.NewDesc("mcpscope_leaks", "Server processes that run outside any group after their client exited, see mcpscope sweep.", nil, nil)
)

// collector reads the figures anew for each scrape.
type collector struct{ source }

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range families {
		to <- m.desc
	}
	to <- byState
	to <- surplus
	to <- leaked
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	views, err := c.servers()
	if err != nil {
		to <- prometheus.NewInvalidMetric(byState, err)
		return
	}
	states := map[fleet.State]int{fleet.Running: 0, fleet.Ending: 0, fleet.Frozen: 0, fleet.Orphaned: 0}
	seen := map[[4]string]bool{}
	for _, v := range views {
		states[v.State]++
		of := [4]string{v.ID, label(v.Name), label(v.Client.Name), string(v.Backend)}
		if seen[of] {
			continue // a user can write another one's id; the library would refuse all figures for it
		}
		seen[of] = true
		collect(to, v, of[:])
	}
	copies, duplicates := map[[3]string]int{}, 0
	for _, v := range views {
		key := [3]string{strconv.Itoa(v.UID), strconv.Itoa(v.Client.PID), v.Name}
		if copies[key]++; copies[key] > 1 {
			duplicates++
		}
	}
	to <- prometheus.MustNewConstMetric(surplus, prometheus.GaugeValue, float64(duplicates))
	to <- prometheus.MustNewConstMetric(leaked, prometheus.GaugeValue, float64(c.leaks()))
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(byState, prometheus.GaugeValue, float64(n), string(state))
	}
}

func collect(to chan<- prometheus.Metric, v measured, of []string) {
	for _, m := range families {
		value, ok := m.value(v)
		if !ok {
			continue
		}
		values := of[:len(of):len(of)]
		if m.more != nil {
			values = append(values, m.more(v))
		}
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, values...)
	}
}

func number(n *uint64) (float64, bool) {
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

func startTime(v measured) (float64, bool) {
	if v.Started == nil {
		return 0, false
	}
	return float64(v.Started.UnixMilli()) / 1000, true
}

// cpuLimit reads "QUOTA PERIOD".
func cpuLimit(v measured) (float64, bool) {
	var quota, period float64
	n, _ := fmt.Sscanf(v.Limits["cpu.max"], "%g %g", &quota, &period)
	return quota / period, n == 2 && period > 0
}

// label is a name as a label's value, which has to be UTF-8.
func label(s string) string { return cli.OneLine(strings.ToValidUTF8(s, "\uFFFD")) }
