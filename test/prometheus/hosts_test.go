// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/metrics"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// A simulated host answers scrapes as mcpscope metrics --listen does, by the same code. Only the servers are
// made up.
type simulatedHost struct {
	address string
	server  *http.Server

	mu       sync.Mutex
	random   *rand.Rand
	servers  []render.Server
	ends     map[causes.Cause]int
	orphans  int // of the servers
	leaks    int
	unread   bool // configurations, and nobody knows the leaks
	gateways int  // that contain nothing
}

var (
	simulatedClients = []string{"claude", "codex", "gemini", "hermes", "code"}
	simulatedNames   = []string{
		"browser", "fetch", "filesystem", "git", "github", "index", "jira", "memory", "notes", "postgres",
		"search", "time",
	}
)

// startHost serves the metrics of a host with so many servers, on a loopback address of its own.
func startHost(tb testing.TB, number, servers int) *simulatedHost {
	tb.Helper()
	h := &simulatedHost{random: rand.New(rand.NewPCG(uint64(number), 1)), ends: map[causes.Cause]int{}}
	for _, cause := range causes.All() {
		h.ends[cause] = 0
	}
	for i := range servers {
		h.servers = append(h.servers, h.newServer(i))
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.%d.%d:0", 1+number/200, 1+number%200))
	if err != nil {
		tb.Fatal(err)
	}
	h.address = listener.Addr().String()
	h.server = metrics.NewServer(metrics.Source{
		Servers:     h.measure,
		Leaks:       h.countLeaks,
		Uncontained: func() int { return 0 },
		Gateways:    func() int { return h.read(&h.gateways) },
		Ends:        h.readEnds,
	})
	done := make(chan error, 1)
	go func() { done <- h.server.Serve(listener) }()
	tb.Cleanup(func() {
		h.close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			tb.Error(err)
		}
	})
	return h
}

func (h *simulatedHost) countLeaks(metrics.Measured) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unread {
		return 0, errors.New("cannot read configurations")
	}
	return h.leaks, nil
}

// close has it answer nothing any more.
func (h *simulatedHost) close() { _ = h.server.Close() }

// newServer is the one at that position. Of four in a row the first one has a limit, and the second one is
// idle.
func (h *simulatedHost) newServer(position int) render.Server {
	started := time.Now().Add(-time.Duration(h.random.IntN(7200)) * time.Second)
	memory := uint64(20<<20 + h.random.IntN(80<<20))
	peak := memory + uint64(h.random.IntN(20<<20))
	s := render.Server{
		Identity: render.Identity{
			ID:      fmt.Sprintf("%08x", h.random.Uint32()),
			Name:    simulatedNames[position%len(simulatedNames)],
			UID:     1000 + position/30,
			Backend: names.SystemdUser,
			State:   fleet.Running,
			Client: render.Process{
				PID: 1000 + position/10, Name: simulatedClients[position/10%len(simulatedClients)],
			},
		},
		Started: &started, Age: time.Since(started).Seconds(),
		Role: fmt.Sprint("role ", position),
		Figures: render.Figures{
			Processes: 1 + h.random.IntN(8), CPU: h.random.Float64() * 100,
			Memory: &memory, Peak: &peak, MemoryFrom: "group",
		},
	}
	switch position % 4 {
	case 0:
		s.Limits = map[string]string{"memory.max": "1073741824", "pids.max": "200"}
	case 1:
		s.State = fleet.Idle
		s.Before = memory
		memory /= 50
		s.Wakes = 3
	}
	return s
}

// measure has the servers do something between two scrapes.
func (h *simulatedHost) measure() (metrics.Measured, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.servers {
		s := &h.servers[i]
		switch {
		case i < h.orphans:
			s.State = fleet.Orphaned
		case s.State == fleet.Running:
			s.CPU += h.random.Float64()
			memory := *s.Memory + uint64(h.random.IntN(1<<20))
			s.Memory = &memory
		}
	}
	return metrics.Measured{Servers: append([]render.Server(nil), h.servers...)}, nil
}

// replaceServers ends so many servers and starts others in their places, as clients do.
func (h *simulatedHost) replaceServers(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range n {
		i := h.random.IntN(len(h.servers))
		h.servers[i] = h.newServer(i)
		h.ends[causes.StdinClosed]++
	}
}

func (h *simulatedHost) read(figure *int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *figure
}

func (h *simulatedHost) readEnds() (map[causes.Cause]int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[causes.Cause]int{}
	for cause, n := range h.ends {
		counts[cause] = n
	}
	return counts, nil
}

// set changes what the next scrape finds.
func (h *simulatedHost) set(change func(*simulatedHost)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}
