// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A footprint counts what servers could leave behind.
type footprint struct {
	descriptors, processes, groups, units int
	dying                                 int // groups that are removed, and that the kernel still keeps memory for
}

// slack is for the kernel, which frees a removed group some time later.
const slack = 100

func (f footprint) within(before footprint) bool {
	return f.descriptors <= before.descriptors && f.processes <= before.processes &&
		f.groups <= before.groups && f.units <= before.units && f.dying <= before.dying+slack
}

// flat fails the test if there is more after do than before. There is no event for a zombie that another
// process reaps, nor for a group that the kernel frees.
func (p *Plan) flat(t *testing.T, do func()) {
	t.Helper()
	before := p.footprint(t)
	do()
	var after footprint
	if !pace.Eventually(escape.Patience, func() bool {
		after = p.footprint(t)
		return after.within(before)
	}) {
		t.Errorf("before %+v, after %+v: %s", before, after, escape.Tree(p.site.Dir))
	}
}

func (p *Plan) footprint(t *testing.T) (f footprint) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	f.descriptors = len(fds)
	dirs := []string{p.site.Dir}
	if p.Beside != "" {
		dirs = append(dirs, p.Beside)
	}
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // groups may vanish meanwhile
			if err == nil && d.IsDir() && d.Name() != "guards" { // which comes and goes with those that remove groups
				f.groups++
			}
			return nil
		})
		stat, err := os.ReadFile(filepath.Join(dir, "cgroup.stat"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(stat)) {
			var n int
			_, _ = fmt.Sscanf(line, "nr_dying_descendants %d", &n) // other lines have other keys
			f.dying += n
		}
	}
	all, _ := filepath.Glob("/proc/[0-9]*") // no list of a group has the zombies
	for _, proc := range all {
		var pid int
		_, _ = fmt.Sscan(filepath.Base(proc), &pid) // it is a number
		path, _ := bed.ProcessPath(pid)             // "" for one that has exited
		for _, dir := range dirs {
			if strings.HasPrefix(bed.Root(t)+path+"/", dir+"/") {
				f.processes++
				break
			}
		}
	}
	if p.Units != nil {
		f.units = p.Units()
	}
	return f
}
