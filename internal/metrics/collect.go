// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// collector reads the figures anew for each scrape.
type collector struct{ figures Source }

// Describe promises nothing: which figures there are differs from server to server.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends all figures. Without any server that can be read, it sends the error instead.
func (c collector) Collect(sink chan<- prometheus.Metric) {
	measured, err := c.figures.Servers()
	servers := measured.Servers
	if selection.IsFailed(servers, err) {
		sink <- prometheus.NewInvalidMetric(byState, err)
		return
	}
	sendGauge(sink, readable, oneUnless(err))
	sendServers(sink, servers)
	sendClients(sink, servers)
	sendGauge(sink, surplus, float64(duplicates(servers)))
	if count, err := c.figures.Leaks(measured); err == nil { // an unknown number is no sample
		sendGauge(sink, leaked, float64(count))
	}
	sendGauge(sink, outside, float64(c.figures.Uncontained()))
	sendGauge(sink, outsideGateways, float64(c.figures.Gateways()))
	counts, err := c.figures.Ends()
	sendGauge(sink, journal, oneUnless(err))
	sendEnds(sink, counts)
	for state, n := range countStates(servers) {
		sendGauge(sink, byState, float64(n), string(state))
	}
}

func sendGauge(sink chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	sink <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// sendEnds sends all causes, also those that never occurred: a counter that begins with its first event has
// no increase.
func sendEnds(sink chan<- prometheus.Metric, counts map[causes.Cause]int) {
	for cause, n := range counts {
		sink <- prometheus.MustNewConstMetric(ended, prometheus.CounterValue, float64(n), string(cause))
	}
}

// series has the values of the labels of one server.
type series struct{ id, name, client, backend, uid string }

func seriesOf(v render.Server) series {
	return series{
		id:      v.ID,
		name:    label(v.Name),
		client:  label(v.Client.Name),
		backend: string(v.Backend),
		uid:     strconv.Itoa(v.UID),
	}
}

// values are in the order of labels.
func (s series) values() []string { return []string{s.id, s.name, s.client, s.backend, s.uid} }

// sendServers leaves out a second server with the same labels: a user can write the id of another server, and
// the library would refuse all figures for it.
func sendServers(sink chan<- prometheus.Metric, servers []render.Server) {
	sent := map[series]bool{}
	for _, v := range servers {
		s := seriesOf(v)
		if !sent[s] {
			sent[s] = true
			sendServer(sink, v, s)
		}
	}
}

func sendServer(sink chan<- prometheus.Metric, v render.Server, s series) {
	for _, m := range families {
		value, known := m.value(v)
		if !known {
			continue
		}
		values := s.values()
		if m.more != nil {
			values = append(values, m.more(v))
		}
		sink <- prometheus.MustNewConstMetric(m.desc, m.kind, value, values...)
	}
}

// sums are those of the servers of one client in one state.
type sums struct {
	servers int
	memory  uint64
}

// clientAndState are the labels of sums.
type clientAndState struct {
	client string
	state  fleet.State
}

// sendClients sends sums that a Prometheus of many hosts can afford: each start of a server has an id, and
// with it new series, but the clients of a host are always the same few.
func sendClients(sink chan<- prometheus.Metric, servers []render.Server) {
	own := clientsWithOwnSums(servers)
	sumsOf := map[clientAndState]sums{}
	for _, v := range servers {
		key := clientAndState{client: label(v.Client.Name), state: v.State}
		if !own[key.client] {
			key.client = otherClients
		}
		sum := sumsOf[key]
		sum.servers++
		if v.Memory != nil {
			sum.memory += *v.Memory
		}
		sumsOf[key] = sum
	}
	for key, sum := range sumsOf {
		sendGauge(sink, clientServers, float64(sum.servers), key.client, string(key.state))
		sendGauge(sink, clientMemory, float64(sum.memory), key.client, string(key.state))
	}
}

// A user can call a client by any name, so the series of a scrape are bounded.
const (
	clientsMost  = 32
	otherClients = "other"
)

// clientsWithOwnSums returns the clients that have the most servers.
func clientsWithOwnSums(servers []render.Server) map[string]bool {
	count := map[string]int{}
	for _, v := range servers {
		count[label(v.Client.Name)]++
	}
	clients := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		if count[a] != count[b] {
			return cmp.Compare(count[b], count[a])
		}
		return strings.Compare(a, b)
	})
	own := map[string]bool{}
	for _, client := range clients[:min(len(clients), clientsMost)] {
		own[client] = true
	}
	return own
}

// countStates has all states, also those of no server.
func countStates(servers []render.Server) map[fleet.State]int {
	counts := map[fleet.State]int{
		fleet.Running: 0, fleet.Terminating: 0, fleet.Frozen: 0, fleet.Idle: 0, fleet.Orphaned: 0,
		fleet.Kept: 0,
	}
	for _, v := range servers {
		counts[v.State]++
	}
	return counts
}

// duplicates counts the servers that have the role of another server of the same client.
func duplicates(servers []render.Server) int {
	type role struct {
		uid    int
		client int
		role   string
	}
	roles := map[role]bool{}
	copies := 0
	for _, v := range servers {
		of := role{uid: v.UID, client: v.Client.PID, role: v.Role}
		if v.State != fleet.Kept && roles[of] {
			copies++
		}
		roles[of] = true
	}
	return copies
}

func oneUnless(err error) float64 {
	if err != nil {
		return 0
	}
	return 1
}

// label is a name as a label's value, which has to be UTF-8.
func label(s string) string { return cli.OneLine(strings.ToValidUTF8(s, "\uFFFD")) }
