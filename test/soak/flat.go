// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A footprint is all that servers could leave behind.
type footprint struct {
	descriptors, processes, groups, units int
	dying                                 int // groups that are removed, and that the kernel still keeps memory for
}

func (f footprint) String() string {
	return fmt.Sprintf("%d descriptors, %d processes, %d groups, %d units, %d dying groups",
		f.descriptors, f.processes, f.groups, f.units, f.dying)
}

// slack is for the kernel, which frees a removed group some time later.
const slack = 100

func (f footprint) within(before footprint) bool {
	return f.descriptors <= before.descriptors && f.processes <= before.processes &&
		f.groups <= before.groups && f.units <= before.units && f.dying <= before.dying+slack
}

// least is the part of both that is not on its way out.
func (f footprint) least(g footprint) footprint {
	return footprint{min(f.descriptors, g.descriptors), min(f.processes, g.processes),
		min(f.groups, g.groups), min(f.units, g.units), min(f.dying, g.dying)}
}

// settled is the least of what is counted until enough is content. No event tells of a zombie that
// a stranger has reaped, nor of a group that the kernel has freed.
func (p *Plan) settled(t *testing.T, limit time.Duration, enough func(footprint) bool) footprint {
	t.Helper()
	least, end := p.footprint(t), time.Now().Add(limit)
	for pause := time.Millisecond; !enough(least) && time.Now().Before(end); pause = min(2*pause, time.Second) {
		escape.PollFor(pause)
		least = least.least(p.footprint(t))
	}
	return least
}

func (p *Plan) wantFlat(t *testing.T, before, after footprint) {
	t.Helper()
	if after.within(before) {
		return
	}
	t.Errorf("before %v, after %v", before, after)
	for _, dir := range p.groups {
		t.Logf("%s: %s", dir, escape.Tree(dir))
	}
}

func (p *Plan) footprint(t *testing.T) footprint {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	f := footprint{descriptors: len(fds), processes: p.processes(bed.Root(t))}
	for _, dir := range p.groups {
		f.groups += below(dir)
		f.dying += dying(t, dir)
	}
	if p.Units != nil {
		f.units = p.Units()
	}
	return f
}

// processes counts by /proc: no list of a group has the zombies.
func (p *Plan) processes(root string) (n int) {
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, proc := range found {
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err != nil {
			continue
		}
		path, _ := bed.ProcessPath(pid) // "" for one that is gone
		for _, dir := range p.groups {
			if strings.HasPrefix(root+path+"/", dir+"/") {
				n++
				break
			}
		}
	}
	return n
}

// below counts groups, but for the one that comes and goes with who removes the others.
func below(dir string) (n int) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && filepath.Base(path) != "leaving" { // it may be gone by now
			n++
		}
		return nil
	})
	return n
}

func dying(t *testing.T, dir string) (n int) {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join(dir, "cgroup.stat"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(stat)) {
		_, _ = fmt.Sscanf(line, "nr_dying_descendants %d", &n) // the other lines
	}
	return n
}
