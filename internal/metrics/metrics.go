// SPDX-License-Identifier: Apache-2.0

// Package metrics has the figures of servers for Prometheus. They are measured anew for each scrape.
package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/history"
	"github.com/mcpscope/mcpscope/internal/leftover"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/show"
	"github.com/mcpscope/mcpscope/internal/units"
)

// measureAll measures all servers.
func measureAll(f *selection.Filter) ([]show.Server, error) {
	servers, err := f.List()
	defer selection.Close(servers)
	var all []show.Server
	for _, s := range servers {
		if v, err := show.Measure(s); err == nil { // otherwise it has ended meanwhile
			all = append(all, v)
		}
	}
	return all, err
}

// source is where figures come from.
type source struct {
	servers     func() ([]show.Server, error)
	leaks       func() int
	uncontained func() int
	gateways    func() int // whose servers are not contained
	ends        func() (map[protocol.Cause]int, error)
}

func sourceOf(f *selection.Filter) source {
	var ends history.Ends
	var mu sync.Mutex // scrapes can overlap
	return source{
		servers:     func() ([]show.Server, error) { return measureAll(f) },
		leaks:       func() int { return leftover.CountLeaks(selection.Whose(f.AllUsers)) },
		uncontained: func() int { return containment.Servers(selection.Whose(f.AllUsers)) },
		gateways:    func() int { return len(units.UncontainedGateways()) },
		ends: func() (map[protocol.Cause]int, error) {
			mu.Lock()
			defer mu.Unlock()
			counts, err := ends.Read()
			return maps.Clone(counts), err
		},
	}
}

// Write prints OpenMetrics text.
func Write(f *selection.Filter, to io.Writer) error { return write(sourceOf(f), to) }

func write(of source, to io.Writer) error {
	servers, err := of.servers() // the library puts its own words around an error
	if err != nil && len(servers) == 0 {
		return err
	}
	of.servers = func() ([]show.Server, error) { return servers, err }
	families, err := registry(of).Gather()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	enc := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeOpenMetrics))
	for _, family := range families {
		if err := enc.Encode(family); err != nil {
			return err
		}
	}
	if closer, ok := enc.(expfmt.Closer); ok {
		err = closer.Close() // "# EOF"
	}
	_, _ = to.Write(text.Bytes()) // cli.Output reports it
	return err
}

// WriteFile replaces a file in Prometheus' text format, for node_exporter.
func WriteFile(f *selection.Filter, path string) error {
	err := prometheus.WriteToTextfile(path, registry(sourceOf(f)))
	if failed, ok := errors.AsType[*os.PathError](err); ok { // it has the name of a temporary file
		return fmt.Errorf("replace %s: %w", path, failed.Err)
	}
	return err
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
	value func(show.Server) (float64, bool)
	more  func(show.Server) string // the value of one more label; may be nil
}

var labels = []string{"id", "name", "client", "backend", "uid"}

func describe(name, unit, help string, more ...string) *prometheus.Desc {
	all := prometheus.UnconstrainedLabels(slices.Concat(labels, more))
	return prometheus.V2.NewDesc("mcpscope_"+name, help, all, nil, prometheus.WithUnit(unit))
}

func gauge(name, unit, help string, value func(show.Server) (float64, bool)) metric {
	return metric{desc: describe(name, unit, help), kind: prometheus.GaugeValue, value: value}
}

func counter(name, unit, help string, value func(show.Server) (float64, bool)) metric {
	return metric{desc: describe(name+"_total", unit, help), kind: prometheus.CounterValue, value: value}
}

var (
	families = []metric{
		gauge("server_processes", "", "Processes of the server.",
			func(v show.Server) (float64, bool) { return float64(v.Processes), true }),
		counter("server_cpu_seconds", "seconds", "CPU time of the server.",
			func(v show.Server) (float64, bool) { return v.CPU, true }),
		{ // a sum over processes is not a count of the kernel
			describe("server_memory_bytes", "bytes", "Current memory of the server: that of its group, "+
				"of the scope around it, or a sum over its processes (members).", "source"),
			prometheus.GaugeValue, func(v show.Server) (float64, bool) { return number(v.Memory) },
			func(v show.Server) string { return string(v.MemoryFrom) },
		},
		gauge("server_memory_peak_bytes", "bytes", "Peak memory of the server.",
			func(v show.Server) (float64, bool) { return number(v.Peak) }),
		gauge("server_memory_limit_bytes", "bytes", "Memory limit of the server.",
			func(v show.Server) (float64, bool) { return number(v.Limit("memory.max")) }),
		gauge("server_processes_limit", "", "Limit of processes and threads of the server.",
			func(v show.Server) (float64, bool) { return number(v.Limit("pids.max")) }),
		gauge("server_cpu_limit_processors", "processors", "CPU limit of the server.", cpuLimit),
		counter("server_oom_kills", "", "Processes of the server that the kernel killed for lack of memory.",
			func(v show.Server) (float64, bool) { return float64(v.OOMKills), true }),
		counter("server_forks_refused", "", "Forks of the server that a limit refused.",
			func(v show.Server) (float64, bool) { return float64(v.PIDsRefused), true }),
		counter("server_wakes", "", "Wakes of the idle server by its input.",
			func(v show.Server) (float64, bool) { return float64(v.Wakes), v.Wakes > 0 }),
		gauge("server_memory_before_bytes", "bytes", "Memory of the idle server before it was reclaimed.",
			func(v show.Server) (float64, bool) { return float64(v.Before), v.Before > 0 }),
		gauge("server_start_time_seconds", "seconds", "Start of the server (Unix time).", startTime),
	}
	byState = prometheus.NewDesc("mcpscope_servers", "Servers, by state.", []string{"state"}, nil)
	surplus = prometheus.NewDesc("mcpscope_duplicate_servers",
		"Servers that a client has started again in the same way (mcpscope run: with the same name).",
		nil, nil)
	leaked = prometheus.NewDesc("mcpscope_leaks",
		"Server processes outside any group whose client exited, see mcpscope sweep.", nil, nil)
	ended = prometheus.NewDesc("mcpscope_server_ends_total",
		"Servers that have ended since the boot, by cause, as the journal has them.", []string{"cause"}, nil)
	journal = prometheus.NewDesc("mcpscope_journal_readable",
		"1 if mcpscope_server_ends could be read from the journal.", nil, nil)
	readable = prometheus.NewDesc("mcpscope_servers_readable",
		"0 if some servers could not be read, and are missing, see mcpscope ls.", nil, nil)
	outside = prometheus.NewDesc("mcpscope_uncontained_servers",
		"Servers of gateways that could not be contained, see mcpscope ls.", nil, nil)
	outsideGateways = prometheus.NewDesc("mcpscope_uncontained_gateways",
		"Running gateways whose servers are not contained, see mcpscope doctor.", nil, nil)
)

// collector reads the figures anew for each scrape.
type collector struct{ source }

// Describe promises nothing: which figures there are differs from server to server.
func (c collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(to chan<- prometheus.Metric) {
	views, err := c.servers()
	if err != nil && len(views) == 0 {
		to <- prometheus.NewInvalidMetric(byState, err)
		return
	}
	to <- prometheus.MustNewConstMetric(readable, prometheus.GaugeValue, oneUnless(err))
	states := map[fleet.State]int{
		fleet.Running: 0, fleet.Terminating: 0, fleet.Frozen: 0, fleet.Idle: 0, fleet.Orphaned: 0,
	}
	seen := map[[5]string]bool{}
	for _, v := range views {
		states[v.State]++
		of := [5]string{v.ID, label(v.Name), label(v.Client.Name), string(v.Backend), strconv.Itoa(v.UID)}
		if seen[of] {
			continue // a user can write another one's id; the library would refuse all figures for it
		}
		seen[of] = true
		collect(to, v, of[:])
	}
	copies, duplicates := map[[3]string]int{}, 0
	for _, v := range views {
		key := [3]string{strconv.Itoa(v.UID), strconv.Itoa(v.Client.PID), v.Role}
		if copies[key]++; copies[key] > 1 {
			duplicates++
		}
	}
	to <- prometheus.MustNewConstMetric(surplus, prometheus.GaugeValue, float64(duplicates))
	to <- prometheus.MustNewConstMetric(leaked, prometheus.GaugeValue, float64(c.leaks()))
	to <- prometheus.MustNewConstMetric(outside, prometheus.GaugeValue, float64(c.uncontained()))
	to <- prometheus.MustNewConstMetric(outsideGateways, prometheus.GaugeValue, float64(c.gateways()))
	c.collectEnds(to)
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(byState, prometheus.GaugeValue, float64(n), string(state))
	}
}

// collectEnds has all causes, also those that never occurred: a counter that begins with its first event has
// no increase.
func (c collector) collectEnds(to chan<- prometheus.Metric) {
	counts, err := c.ends()
	to <- prometheus.MustNewConstMetric(journal, prometheus.GaugeValue, oneUnless(err))
	for cause, n := range counts {
		to <- prometheus.MustNewConstMetric(ended, prometheus.CounterValue, float64(n), string(cause))
	}
}

func collect(to chan<- prometheus.Metric, v show.Server, of []string) {
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

func oneUnless(err error) float64 {
	if err != nil {
		return 0
	}
	return 1
}

func number(n *uint64) (float64, bool) {
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

func startTime(v show.Server) (float64, bool) {
	if v.Started == nil {
		return 0, false
	}
	return float64(v.Started.UnixMilli()) / 1000, true
}

// cpuLimit reads "QUOTA PERIOD".
func cpuLimit(v show.Server) (float64, bool) {
	var quota, period float64
	n, _ := fmt.Sscanf(v.Limits["cpu.max"], "%g %g", &quota, &period)
	return quota / period, n == 2 && period > 0
}

// label is a name as a label's value, which has to be UTF-8.
func label(s string) string { return cli.OneLine(strings.ToValidUTF8(s, "\uFFFD")) }
