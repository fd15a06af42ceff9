// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/host"
)

const (
	tripRounds  = 60
	tripBatch   = 500
	tripBytes   = 64
	bulkRounds  = 30
	bulkBytes   = 64 << 20
	sameEnough  = 0.02 // in the median of pairs: the ratio of two medians is 0.8 to 1.2 of bare to bare under load
	dataControl = "bare, once more"
)

// dataSections compare servers that run side by side: bare, bare again to show what
// difference means nothing, with what the kernel needs to tell us of a hang-up, the same in
// a cgroup of its own, and under mcpscope.
func dataSections(b *testing.B) []Section {
	groups, err := bed.OwnGroup()
	must(b, err)
	trips := Section{Title: fmt.Sprintf("Round trip of %d bytes", tripBytes), Base: "bare"}
	bulk := Section{Title: fmt.Sprintf("%d MiB through the server", bulkBytes>>20), Base: "bare"}
	for _, way := range []struct {
		name    string
		connect connection
	}{{"pipes", pipe}, {"socketpairs", socketpair}} {
		floor := inGroup(groups)
		floor.name, floor.watched, floor.ours = "floor: a cgroup of its own, three epoll sets", true, false
		all := []contender{
			bare, {name: dataControl}, {name: "bare, in three epoll sets", watched: true}, floor,
			run("cgroup", host.Root), run("systemd-system", host.Root),
		}
		servers := startAll(b, all, way.connect)
		trips.addData(way.name, "µs", time.Microsecond, all, inTurn(b, servers, rounds(tripRounds), (*server).trips))
		bulk.addData(way.name, "ms", time.Millisecond, all, inTurn(b, servers, rounds(bulkRounds), (*server).bulk))
		for _, s := range servers {
			must(b, s.end())
		}
	}
	return []Section{trips, bulk}
}

func startAll(b *testing.B, all []contender, connect connection) []*server {
	b.Helper()
	var servers []*server
	for _, c := range all {
		s, err := start(c, connect)
		must(b, err)
		servers = append(servers, s)
	}
	return servers
}

// inTurn pairs each server with the first one. The order is turned round each time: who
// comes later finds other things in the caches.
func inTurn(b *testing.B, servers []*server, n int, measure func(*server) (time.Duration, error)) []pairs {
	got := make([]pairs, len(servers))
	once := make([]time.Duration, len(servers))
	for round := range n + 1 {
		for i := range servers {
			if round%2 == 1 {
				i = len(servers) - 1 - i
			}
			var err error
			once[i], err = measure(servers[i])
			must(b, err)
		}
		for i := range servers {
			if round > 0 { // the first is to warm up
				got[i].add(once[0], once[i])
			}
		}
	}
	return got
}

func (s *Section) addData(way, unitName string, unit time.Duration, all []contender, got []pairs) {
	for i, c := range all[1:] {
		r := got[i+1].row(way+": "+c.name, unitName, unit)
		if c.ours { // the product itself
			r.aim("≤ 2 % more", r.Difference.P50 <= sameEnough*r.Base.P50)
		}
		s.Rows = append(s.Rows, r)
	}
}

// trips is the mean of a batch.
func (s *server) trips() (time.Duration, error) {
	buf := make([]byte, tripBytes)
	begin := time.Now()
	for range tripBatch {
		if _, err := unix.Write(s.in, buf); err != nil {
			return 0, err
		}
		if err := s.read(buf); err != nil {
			return 0, err
		}
	}
	return time.Since(begin) / tripBatch, nil
}

// bulk writes and reads at the same time: no pipe holds it all.
func (s *server) bulk() (time.Duration, error) {
	piece := make([]byte, 64<<10)
	wrote := make(chan error, 1)
	begin := time.Now()
	go func() {
		var err error
		for left := bulkBytes; left > 0 && err == nil; {
			var n int
			n, err = unix.Write(s.in, piece[:min(left, len(piece))])
			left -= max(n, 0)
		}
		wrote <- err
	}()
	buf := make([]byte, 64<<10)
	for left := bulkBytes; left > 0; {
		n, err := unix.Read(s.out, buf)
		if n <= 0 {
			return 0, fmt.Errorf("the server ended: %w", err)
		}
		left -= n
	}
	return time.Since(begin), <-wrote
}

// read fills buf.
func (s *server) read(buf []byte) error {
	for len(buf) > 0 {
		n, err := unix.Read(s.out, buf)
		if n <= 0 && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("the server ended: %w", err)
		}
		buf = buf[max(n, 0):]
	}
	return nil
}
