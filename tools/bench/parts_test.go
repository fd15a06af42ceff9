// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"testing"
	"time"
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

// ours are the contenders that run mcpscope, each kind once.
func ours(all []contender) (some []contender) {
	for _, c := range all {
		if c.ours() && !c.startsOnly {
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
		var two [2]*server // pages of the program's file are the machine's, and not of one of them
		for i := range two {
			var err error
			two[i], err = startServer(c, nil)
			must(b, err)
		}
		time.Sleep(2 * time.Second) // no event says that the start, with its sweep, is over
		private, n, err := usage(c.wrap[0])
		must(b, err)
		for _, s := range two {
			must(b, s.end())
		}
		memory.add(c.name, private/2)
		tasks.add(c.name, n/2)
	}
	return []*table{memory, tasks}
}
