// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// measured has the figures of inspect.
type measured struct {
	ID        string              `json:"id"`
	Group     string              `json:"group"`
	Processes int                 `json:"processes"`
	CPU       float64             `json:"cpu_seconds"`
	Memory    *float64            `json:"memory_bytes"`
	Peak      *float64            `json:"memory_peak_bytes"`
	Source    string              `json:"memory_source"`
	Tree      []struct{ PID int } `json:"-"` // beside it
	OOMKills  float64             `json:"oom_kills"`
	Refused   float64             `json:"pids_refused"`
}

// Figures have the kernel's values, and are missing where there is no such file.
func Figures(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		server := g.start(nil, g.Probe, "--members", "3")
		first := g.measured(server.id)
		if first.Group == "" {
			if first.Peak != nil {
				t.Errorf("figures of no group: %+v", first)
			}
			first.wantSum(t)
			return
		}
		dir := g.payload(first.Group)
		before := kernelFigures(t, dir)
		inspected := g.measured(server.id)
		after := kernelFigures(t, dir)
		told := figuresOf(&inspected)
		for what, most := range after {
			least := before[what]
			value := told[what]
			if value == nil {
				t.Errorf("%s: inspect says nothing, and the kernel %v", what, most)
				continue
			}
			if what == "memory_bytes" { // it goes down as well
				low := min(least, most)
				high := max(least, most)
				least = low * 0.8
				most = high * 1.2
			}
			if *value < least-1e-6 || *value > most+1e-6 {
				t.Errorf("%s: inspect says %v, and the kernel from %v to %v", what, *value, least, most)
			}
		}
		for what, value := range told {
			if what == "memory_bytes" && inspected.Source == "members" {
				inspected.wantSum(t)
				continue
			}
			if _, there := after[what]; !there && value != nil && *value != 0 {
				t.Errorf("%s: inspect says %v, and the kernel does not count it", what, *value)
			}
		}
	})
}

// wantSum checks the memory of a server without a count by the kernel. It is more than the private memory of
// its processes, and less than the sum of private and shared memory.
func (m *measured) wantSum(t *testing.T) {
	t.Helper()
	var least, most float64
	for _, p := range m.Tree {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			f := strings.Fields(line)
			if len(f) != 3 || f[2] != "kB" {
				continue
			}
			kilobytes, _ := strconv.ParseFloat(f[1], 64) // 0 makes the test fail
			switch f[0] {
			case "RssAnon:":
				least += kilobytes * 1024
			case "VmRSS:":
				most += kilobytes * 1024
			}
		}
	}
	if m.Source != "members" || m.Memory == nil || *m.Memory < 0.8*least || *m.Memory > 1.2*most || most == 0 {
		t.Errorf("%+v, and its processes have %v to %v", m, least, most)
	}
}

func (g *ground) measured(id string) measured {
	g.T.Helper()
	var all struct {
		Servers []struct {
			Server measured
			Tree   []struct{ PID int }
		}
	}
	if err := json.Unmarshal([]byte(g.well("inspect", id, "--json")), &all); err != nil || len(all.Servers) != 1 {
		g.T.Fatalf("inspect %s: %v, %d servers", id, err, len(all.Servers))
	}
	all.Servers[0].Server.Tree = all.Servers[0].Tree
	return all.Servers[0].Server
}

func figuresOf(m *measured) map[string]*float64 {
	processes := float64(m.Processes)
	all := map[string]*float64{"processes": &processes, "cpu_seconds": &m.CPU, "memory_bytes": m.Memory, "memory_peak_bytes": m.Peak, "oom_kills": &m.OOMKills, "pids_refused": &m.Refused}
	return all
}

// kernelFigures reads the files of a group; missing files are left out.
func kernelFigures(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	read := func(file string) string {
		b, _ := os.ReadFile(filepath.Join(dir, file)) // as above
		return string(b)
	}
	all := map[string]float64{"processes": float64(len(strings.Fields(read("cgroup.procs"))))}
	number := func(what, text string, unit float64) {
		if n, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
			all[what] = n / unit
		}
	}
	keyed := func(what, file, key string, unit float64) {
		for line := range strings.Lines(read(file)) {
			if value, ok := strings.CutPrefix(line, key+" "); ok {
				number(what, value, unit)
			}
		}
	}
	keyed("cpu_seconds", "cpu.stat", "usage_usec", 1e6)
	keyed("oom_kills", "memory.events", "oom_kill", 1)
	keyed("pids_refused", "pids.events", "max", 1)
	number("memory_bytes", read("memory.current"), 1)
	number("memory_peak_bytes", read("memory.peak"), 1)
	return all
}

// payload is the directory of a group's payload: a site may have a mount of its own, whose top its
// group is, or this host's.
func (g *ground) payload(group string) string {
	g.T.Helper()
	for _, dir := range []string{g.Dir, "/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		path := escape.Payload(filepath.Join(dir, group))
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	g.T.Fatalf("there is no %s", group)
	return ""
}
