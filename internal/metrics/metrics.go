// SPDX-License-Identifier: Apache-2.0

// Package metrics has the figures of servers for Prometheus. They are measured anew for each scrape.
package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/logs"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/units"
)

// Source is where figures come from: functions that a scrape calls, also at the same time as another one.
type Source struct {
	Servers     func() (Measured, error) // an error beside servers: there are others
	Leaks       func(Measured) (int, error)
	Uncontained func() int
	Gateways    func() int // whose servers are not contained
	Ends        func() (map[causes.Cause]int, error)
}

// Measured are the servers of one scrape.
type Measured struct {
	Servers   []render.Server
	contained leaks.Contained
	unlisted  error // why others may be missing
}

func sourceOf(s *selection.Selection) Source {
	users := s.Users()
	return Source{
		Servers:     func() (Measured, error) { return measure(s) },
		Leaks:       func(m Measured) (int, error) { return m.countLeaks(users) },
		Uncontained: func() int { return containment.CountUncontained(proc.Take(), users) },
		Gateways:    func() int { return len(units.UncontainedGateways()) },
		Ends:        countEnds(users),
	}
}

// measure returns servers and an error if only some servers could be listed.
func measure(s *selection.Selection) (Measured, error) {
	began := time.Now()
	found, err := s.FindServers()
	if err != nil {
		return Measured{}, err
	}
	defer found.Close()
	return Measured{
		Servers:   render.MeasureAll(found.Servers),
		contained: leaks.ContainedIn(found.Servers, began),
		unlisted:  found.Unlisted,
	}, found.Unlisted
}

// countLeaks fails without all servers: what seems to be a leak may be in another one.
func (m Measured) countLeaks(users group.Users) (int, error) {
	if m.unlisted != nil {
		return 0, m.unlisted
	}
	return leaks.CountBeside(users, m.contained)
}

// countEnds returns a function that scrapes can call at the same time.
func countEnds(users group.Users) func() (map[causes.Cause]int, error) {
	ends := logs.Ends{Users: users}
	var mu sync.Mutex
	return func() (map[causes.Cause]int, error) {
		mu.Lock()
		defer mu.Unlock()
		counts, err := ends.Read()
		return maps.Clone(counts), err
	}
}

// Text returns the figures as OpenMetrics text.
func Text(s *selection.Selection) ([]byte, error) { return textOf(sourceOf(s)) }

func textOf(figures Source) ([]byte, error) {
	measured, err := figures.Servers() // the library puts its own words around an error
	if selection.IsFailed(measured.Servers, err) {
		return nil, err
	}
	figures.Servers = func() (Measured, error) { return measured, err }
	families, err := registry(figures).Gather()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeOpenMetrics))
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, err
		}
	}
	if closer, ok := encoder.(expfmt.Closer); ok {
		err = closer.Close() // "# EOF"
	}
	return text.Bytes(), err
}

// WriteFile replaces a file in Prometheus' text format, for node_exporter.
func WriteFile(s *selection.Selection, path string) error {
	families, err := registry(sourceOf(s)).Gather()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return err
		}
	}
	err = atomicfile.Write(path, text.Bytes(), 0o644)        // node_exporter runs as another user
	if failed, ok := errors.AsType[*os.PathError](err); ok { // it can have the name of a temporary file
		err = fmt.Errorf("replace %s: %w", path, failed.Err)
	}
	if errors.Is(err, atomicfile.ErrNotRegular) {
		return remedy.With(err, "without --textfile, mcpscope metrics prints to stdout")
	}
	return err
}

// registry has the servers alone, and no figures of this process.
func registry(figures Source) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{figures: figures})
	return r
}
