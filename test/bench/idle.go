// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
)

const (
	// settling is what a new pair gets to finish its start: the sweep, its spare threads.
	settling = 2 * time.Second
	watching = 10 * time.Second
)

// idleSections look at what a pair costs while nothing happens.
func idleSections(b *testing.B) []Section {
	s := Section{Title: fmt.Sprintf("An idle launcher and what it started beside the server, over %v", watching)}
	for _, c := range backends() {
		must(b, s.addIdle(c))
	}
	return []Section{s}
}

func (s *Section) addIdle(c contender) error {
	srv, err := start(c, pipe)
	if err != nil {
		return err
	}
	pids, err := srv.guards()
	if err != nil {
		return err
	}
	time.Sleep(settling) // there is no event for "nothing more is done"
	before, err := costOf(pids)
	if err != nil {
		return err
	}
	if testing.Short() {
		time.Sleep(settling)
	} else {
		time.Sleep(watching) // what is measured is that nothing happens in it
	}
	after, err := costOf(pids)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s (%d processes): ", c.name, len(pids))
	memory := count(name+"private memory", "kB", after.private)
	most := 1500
	if strings.Contains(c.name, "systemd") {
		most = 1800 // with the manager's answers
	}
	memory.aim(fmt.Sprintf("≤ %d kB", most), after.private <= most)
	tasks := count(name+"tasks", "", after.tasks)
	tasks.aim("≤ 10", after.tasks <= 10)
	wakes := count(name+"wake-ups", "", after.switches-before.switches)
	wakes.aim("0", after.switches == before.switches)
	s.Rows = append(s.Rows, memory, tasks, wakes)
	return srv.end()
}

func count(name, unit string, n int) Row {
	v := float64(n)
	return Row{Name: name, Unit: unit, Value: Summary{v, v, v, 1}}
}

// guards are the launcher and everyone between the server and who adopts orphans: the
// supervisor and, with the backend tree, its guard.
func (s *server) guards() ([]int, error) {
	all := []int{s.cmd.Process.Pid}
	for pid := s.pid; ; {
		parent, err := escape.ParentOf(pid)
		if err != nil {
			return nil, err
		}
		if parent <= 1 || parent == os.Getpid() || slices.Contains(all, parent) {
			return all, nil
		}
		all = append(all, parent)
		pid = parent
	}
}

type cost struct{ private, tasks, switches int }

// costOf adds up; private memory is in kB.
func costOf(pids []int) (cost, error) {
	var sum cost
	for _, pid := range pids {
		private, err := keyed(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Private_Clean", "Private_Dirty")
		if err != nil {
			return sum, err
		}
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
		if err != nil || len(tasks) == 0 {
			return sum, fmt.Errorf("%d has no tasks: %w", pid, err)
		}
		sum.private, sum.tasks = sum.private+private, sum.tasks+len(tasks)
		for _, task := range tasks {
			// A task sleeps each time before it can be woken: these count the wake-ups.
			n, err := keyed(filepath.Join(task, "status"), "voluntary_ctxt_switches")
			if err != nil {
				return sum, err
			}
			sum.switches += n
		}
	}
	return sum, nil
}

// keyed adds up the numbers of "key: number …" lines.
func keyed(file string, keys ...string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	sum, found := 0, 0
	for line := range strings.Lines(string(text)) {
		key, rest, _ := strings.Cut(line, ":")
		if !slices.Contains(keys, key) {
			continue
		}
		n, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			return 0, fmt.Errorf("parse %s: %w", file, err)
		}
		sum, found = sum+n, found+1
	}
	if found != len(keys) {
		return 0, fmt.Errorf("%s has %d of %q", file, found, keys)
	}
	return sum, nil
}
