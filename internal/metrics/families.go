// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcpscope/mcpscope/internal/render"
)

// metric is one figure of each server.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(render.Server) (float64, bool)
	more  func(render.Server) string // the value of one more label; may be nil
}

// labels are the labels that each figure of a server has, in the order of series.values.
var labels = []string{"id", "name", "client", "backend", "uid"}

func describe(name, unit, help string, more ...string) *prometheus.Desc {
	names := prometheus.UnconstrainedLabels(slices.Concat(labels, more))
	return prometheus.V2.NewDesc("mcpscope_"+name, help, names, nil, prometheus.WithUnit(unit))
}

func gauge(name, unit, help string, value func(render.Server) (float64, bool)) metric {
	return metric{desc: describe(name, unit, help), kind: prometheus.GaugeValue, value: value}
}

func counter(name, unit, help string, value func(render.Server) (float64, bool)) metric {
	return metric{desc: describe(name+"_total", unit, help), kind: prometheus.CounterValue, value: value}
}

// families are the figures of each server; the others are about all servers.
var (
	families = []metric{
		gauge("server_processes", "", "Processes of the server.",
			func(v render.Server) (float64, bool) { return float64(v.Processes), true }),
		counter("server_cpu_seconds", "seconds", "CPU time of the server.",
			func(v render.Server) (float64, bool) { return v.CPU, true }),
		{
			desc: describe("server_memory_bytes", "bytes",
				"Current memory of the server: that of its group, "+
					"of the scope around it, or a sum over its processes (members).", "source"),
			kind:  prometheus.GaugeValue,
			value: func(v render.Server) (float64, bool) { return number(v.Memory) },
			// a sum over processes is not a count of the kernel
			more: func(v render.Server) string { return string(v.MemoryFrom) },
		},
		gauge("server_memory_peak_bytes", "bytes", "Peak memory of the server.",
			func(v render.Server) (float64, bool) { return number(v.Peak) }),
		gauge("server_memory_limit_bytes", "bytes", "Memory limit of the server.",
			func(v render.Server) (float64, bool) { return number(v.Limit("memory.max")) }),
		gauge("server_processes_limit", "", "Limit of processes and threads of the server.",
			func(v render.Server) (float64, bool) { return number(v.Limit("pids.max")) }),
		gauge("server_cpu_limit_processors", "processors", "CPU limit of the server.", cpuLimit),
		counter("server_oom_kills", "", "Processes of the server that the kernel killed for lack of memory.",
			func(v render.Server) (float64, bool) { return float64(v.OOMKills), true }),
		counter("server_forks_refused", "", "Forks of the server that a limit refused.",
			func(v render.Server) (float64, bool) { return float64(v.PIDsRefused), true }),
		counter("server_wakes", "", "Wakes of the idle server by its input.",
			func(v render.Server) (float64, bool) { return float64(v.Wakes), v.Wakes > 0 }),
		gauge("server_memory_before_bytes", "bytes", "Memory of the idle server before it was reclaimed.",
			func(v render.Server) (float64, bool) { return float64(v.Before), v.Before > 0 }),
		gauge("server_start_time_seconds", "seconds", "Start of the server (Unix time).", startTime),
	}
	byState       = prometheus.NewDesc("mcpscope_servers", "Servers, by state.", []string{"state"}, nil)
	clientServers = prometheus.NewDesc("mcpscope_client_servers", "Servers of a client, by state.",
		[]string{"client", "state"}, nil)
	clientMemory = prometheus.V2.NewDesc("mcpscope_client_memory_bytes",
		"Current memory of the servers of a client, by state.",
		prometheus.UnconstrainedLabels{"client", "state"}, nil, prometheus.WithUnit("bytes"))
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

func number(n *uint64) (float64, bool) {
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

func startTime(v render.Server) (float64, bool) {
	if v.Started == nil {
		return 0, false
	}
	return float64(v.Started.UnixMilli()) / 1000, true
}

func cpuLimit(v render.Server) (float64, bool) { return v.CPULimit() }
