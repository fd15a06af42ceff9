// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

const (
	tripBatch = 500
	tripBytes = 64
	bulkBytes = 64 << 20
)

// data compares servers that echo and run side by side. A second bare server shows which difference means
// nothing.
func data(b *testing.B, all []contender) []*table {
	all = named(all, bare, runCgroup, "run (systemd-system)")
	again := all[0]
	again.name = "floor: a second bare server"
	all = append(all, again)
	trips := &table{title: fmt.Sprintf("Round trip of %d bytes", tripBytes), unit: "µs"}
	bulk := &table{title: fmt.Sprintf("Throughput, %d MiB through the server", bulkBytes>>20), unit: "MB/s"}
	var servers []*server
	for _, c := range all {
		s, err := startServer(c, nil)
		must(b, err)
		servers = append(servers, s)
	}
	for round := range 41 {
		for i := range servers {
			if round%2 == 0 { // later ones find other data in the caches
				i = len(servers) - 1 - i
			}
			trip, err := servers[i].trip()
			must(b, err)
			whole, err := servers[i].bulk()
			must(b, err)
			if round > 0 { // the first is to warm up
				trips.add(all[i].name, trip.Seconds()*1e6)
				bulk.add(all[i].name, bulkBytes/whole.Seconds()/1e6)
			}
		}
	}
	for _, s := range servers {
		must(b, s.end())
	}
	return []*table{trips, bulk}
}

// trip is the mean of a batch.
func (s *server) trip() (time.Duration, error) {
	buf := make([]byte, tripBytes)
	begin := time.Now()
	for range tripBatch {
		if _, err := unix.Write(s.in, buf); err != nil {
			return 0, err
		}
		if err := s.read(len(buf), buf); err != nil {
			return 0, err
		}
	}
	return time.Since(begin) / tripBatch, nil
}

// bulk writes and reads at the same time: no pipe holds it all.
func (s *server) bulk() (time.Duration, error) {
	wrote := make(chan error, 1)
	begin := time.Now()
	go func() {
		piece := make([]byte, 64<<10)
		var err error
		for left := bulkBytes; left > 0 && err == nil; {
			var n int
			n, err = unix.Write(s.in, piece[:min(left, len(piece))])
			left -= max(n, 0)
		}
		wrote <- err
	}()
	err := s.read(bulkBytes, make([]byte, 64<<10))
	return time.Since(begin), errors.Join(err, <-wrote)
}

// read reads so many bytes.
func (s *server) read(left int, buf []byte) error {
	for left > 0 {
		n, err := unix.Read(s.out, buf[:min(left, len(buf))])
		if n <= 0 && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("the server ended: %w", err)
		}
		left -= max(n, 0)
	}
	return nil
}

// kill measures from the SIGKILL of the launcher to the exit of the server's last process. The server ignores
// SIGTERM and has no grace period: the guard kills it at once, as bwrap's kernel does.
func kill(b *testing.B, all []contender) []*table {
	all = append(named(all, bwrap), ours(all)...)
	var tables []*table
	for _, members := range []string{"1", "1000"} {
		t := &table{title: "SIGKILL of the launcher to the exit of the last of " + members + " processes",
			unit: "ms"}
		tables = append(tables, t)
		for range 20 {
			for _, c := range all {
				s, err := startServer(c, []string{"--term-grace", "0s"}, members)
				must(b, err)
				begin := time.Now()
				must(b, s.cmd.Process.Kill())
				s.awaitEnd()
				t.add(c.name, milliseconds(time.Since(begin)))
				must(b, s.end())
			}
		}
	}
	return tables
}

func ours(all []contender) (some []contender) {
	for _, c := range all {
		if c.ours() {
			some = append(some, c)
		}
	}
	return some
}

// idle measures what runs beside an idle server.
func idle(b *testing.B, all []contender) []*table {
	memory := &table{title: "Private memory beside an idle server", unit: "kB"}
	tasks := &table{title: "Tasks beside an idle server", unit: "tasks"}
	for _, c := range append(named(all, bwrap), ours(all)...) {
		s, err := startServer(c, nil)
		must(b, err)
		time.Sleep(2 * time.Second) // no event says that the start, with its sweep, is over
		private, n, err := usage(c.wrap[0])
		must(b, err)
		must(b, s.end())
		memory.add(c.name, private)
		tasks.add(c.name, n)
	}
	return []*table{memory, tasks}
}

const (
	many   = 100
	topFor = 15 * time.Second
)

// list measures the commands that read servers, with none and with many.
func list(b *testing.B, all []contender) []*table {
	listed := &table{title: "mcpscope ls, from exec to exit", unit: "ms"}
	top := &table{title: fmt.Sprintf("CPU of mcpscope top over %v, its start included", topFor),
		unit: "% of a core"}
	var servers []*server
	for _, n := range []int{0, many} {
		for len(servers) < n {
			s, err := startServer(named(all, runCgroup)[0], nil)
			must(b, err)
			servers = append(servers, s)
		}
		name := fmt.Sprintf("with %d servers", n)
		for range 20 {
			begin := time.Now()
			out, err := exec.Command(mcpscopeFile, "ls").Output()
			took := time.Since(begin)
			must(b, err)
			if lines := strings.Count(string(out), "\n"); lines != n+min(n, 1) { // with a head
				b.Fatalf("ls prints %d lines for %d servers", lines, n)
			}
			listed.add(name, milliseconds(took))
		}
		top.add(name, 100*topShare(b, n))
	}
	for _, s := range servers {
		must(b, s.end())
	}
	return []*table{listed, top}
}

// topShare is the share of a core that top uses on a terminal.
func topShare(b *testing.B, n int) float64 {
	b.Helper()
	cmd := exec.Command(mcpscopeFile, "top")
	term := transparent.StartTerminal(b, cmd, cmd.Start)
	term.Resize(50, 120)
	begin := time.Now()
	if !term.Await(escape.Patience, func(all string) bool {
		return strings.Contains(all,
			fmt.Sprint(n, " server"))
	}) {
		b.Fatalf("on the terminal: %q", term.All())
	}
	time.Sleep(topFor)
	took := time.Since(begin)
	must(b, cmd.Process.Signal(unix.SIGTERM))
	_ = cmd.Wait() // it ends by SIGTERM
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / took.Seconds()
}
