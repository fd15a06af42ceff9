// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

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
