// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		what     func(string) (string, error)
		in, want string // "" is a mistake
	}{
		{ParseMemory, "1G", "1073741824"}, {ParseMemory, "512M", "536870912"}, {ParseMemory, "2T", "2199023255552"},
		{ParseMemory, "1048576", "1048576"}, {ParseMemory, "4096", ""}, {ParseMemory, "1023K", ""}, {ParseMemory, "max", "max"},
		{ParseMemory, "", ""}, {ParseMemory, "0", ""}, {ParseMemory, "10%", ""}, {ParseMemory, "1g", ""}, {ParseMemory, "-1", ""}, {ParseMemory, "1GB", ""},
		{ParseMemory, "G", ""}, {ParseMemory, "1.5G", ""}, {ParseMemory, " 1G", ""}, {ParseMemory, "0x10", ""}, {ParseMemory, "+1", ""},
		{ParseMemory, "16777216T", ""}, {ParseMemory, "99999999999999999999", ""},
		{parseSize, "0", "0"}, {parseSize, "1M", "1048576"}, {parseSize, "7", "7"}, {parseSize, "4194303T", "4611684918915760128"},
		{ParsePIDs, "100", "100"}, {ParsePIDs, "max", "max"}, {ParsePIDs, "0", ""}, {ParsePIDs, "1K", ""}, {ParsePIDs, "4294967296", ""}, {ParsePIDs, "", ""},
		{ParseCPU, "150%", "150000 100000"}, {ParseCPU, "1%", "1000 100000"}, {ParseCPU, "max", "max"}, {ParseCPU, "0%", ""},
		{ParseCPU, "1.5", ""}, {ParseCPU, "150", ""}, {ParseCPU, "%", ""}, {ParseCPU, "99999999999%", ""},
	} {
		got, err := c.what(c.in)
		if c.want == "" && err == nil || c.want != "" && (err != nil || got != c.want) {
			t.Errorf("%q is %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

// A size without its unit is meant in M. 0 may stand for no limit.
func TestParseMemoryAdvises(t *testing.T) {
	for in, want := range map[string]string{"512": "did you mean 512M?", "800K": "did you mean 800M?", "0": "no limit is max", "0K": "no limit is max"} {
		if _, err := ParseMemory(in); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func TestParseFileAndValue(t *testing.T) {
	for in, want := range map[string]string{
		"memory.max=1G": "memory.max=1073741824", "memory.min= 64M ": "memory.min=67108864", "pids.max=max": "pids.max=max", "memory.oom.group=0": "memory.oom.group=0", "cpu.max=150%": "cpu.max=150000 100000",
		"cpu.max=50000 100000": "cpu.max=50000 100000", "io.max=8:0 rbps=1048576": "io.max=8:0 rbps=1048576", "hugetlb.2MB.max=4194304": "hugetlb.2MB.max=4194304", "cpuset.cpus=0-1": "cpuset.cpus=0-1",
		"memory.max": "", "=1G": "", "memory.max=": "", "cgroup.procs=0": "", "cgroup.subtree_control=+memory": "", "memory./../x=1": "", "../memory.max=1": "", "memory=1": "", "memory.=1": "",
		"cgroup.freeze=1": "", "pids.max=1\n2": "", "nope.max=1": "", "memory.max=x": "",
	} {
		l, err := ParseLimit(in)
		if want == "" && err == nil || want != "" && (err != nil || l.String() != want) {
			t.Errorf("%q is %q, %v; want %q", in, l, err, want)
		}
	}
	all, err := ParseLimits("memory.min=1M; pids.max=5;")
	if err != nil || len(all) != 2 || all[1].File != "pids.max" {
		t.Errorf("%v, %v", all, err)
	}
	for _, bad := range []string{"", ";", "memory.min=1M; x"} {
		if _, err := ParseLimits(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestPut(t *testing.T) {
	l := Limits{}
	for _, s := range []string{"memory.max=1G", "pids.max=5", "memory.oom.group=0", "memory.max=2G", "pids.max=max", "memory.high=1G"} {
		limit, err := ParseLimit(s)
		if err != nil {
			t.Fatal(err)
		}
		l.Put(limit)
	}
	if got := fmt.Sprint(l.Files); got != "[memory.oom.group=0 memory.max=2147483648 memory.high=1073741824]" {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"memory.max=1G", "io.max=8:0 rbps=1", "cgroup.kill=1", "cpu.max=1%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(l.File, "/ \n") || strings.HasPrefix(l.File, "cgroup.") || l.Value == "" || strings.ContainsAny(l.Value, "\n\x00") {
			t.Errorf("%q is %q", s, l)
		}
	})
}

func TestNone(t *testing.T) {
	for limit, want := range map[Limit]bool{
		{File: "memory.max", Value: "max"}:        true,
		{File: "memory.max", Value: "1073741824"}: false,
		{File: "memory.min", Value: "max"}:        false,
		{File: "memory.low", Value: "max"}:        false,
	} {
		if got := limit.None(); got != want {
			t.Errorf("%v removes a limit: %t", limit, got)
		}
	}
}
