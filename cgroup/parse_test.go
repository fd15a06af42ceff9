// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParse(t *testing.T) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	all := uint64(info.Totalram) * uint64(info.Unit)
	bytes := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, c := range []struct {
		what     func(string) (string, error)
		in, want string // "" is a mistake
	}{
		{ParseMemory, "1G", "1073741824"}, {ParseMemory, "512M", "536870912"},
		{ParseMemory, "1048576", "1048576"}, {ParseMemory, "4096", ""}, {ParseMemory, "1023K", ""},
		{ParseSwap, "7B", "7"}, {ParseMemory, "1GiB", "1073741824"}, {ParseMemory, "1.5Gi", "1610612736"},
		{ParseMemory, "1iB", ""}, {ParseMemory, "1T", "1099511627776"},
		{ParseMemory, "0.5P", "562949953421312"}, {ParseMemory, "1E", "1152921504606846976"},
		{ParseMemory, "infinity", "max"}, {ParseMemory, "max", "max"}, {ParseMemory, "100%", bytes(all)}, {ParseMemory, "50%", bytes(all / 2)}, {ParseMemory, "12.5%", bytes(all / 8)},
		{ParseMemory, "", ""}, {ParseMemory, "0", ""}, {ParseMemory, "0%", ""}, {ParseMemory, "101%", ""}, {ParseMemory, "1g", ""}, {ParseMemory, "-1", ""}, {ParseMemory, "1GB", ""},
		{ParseMemory, "G", ""}, {ParseMemory, "%", ""}, {ParseMemory, "1.", ""}, {ParseMemory, ".5G", ""}, {ParseMemory, "1.5.2G", ""}, {ParseMemory, " 1G", ""}, {ParseMemory, "0x10", ""},
		{ParseMemory, "+1", ""}, {ParseMemory, "16E", ""}, {ParseMemory, "99999999999999999999", ""}, {ParseSwap, "1.9999999999999999999999K", "2047"},
		{ParseSwap, "0", "0"}, {ParseSwap, "0%", "0"}, {ParseSwap, "1M", "1048576"}, {ParseSwap, "infinity", "max"},
		{ParsePIDs, "100", "100"}, {ParsePIDs, "infinity", "max"}, {ParsePIDs, "0", ""}, {ParsePIDs, "1K", ""}, {ParsePIDs, "4294967296", ""}, {ParsePIDs, "200%", ""},
		{ParseCPU, "1.5", "150000 100000"}, {ParseCPU, "150%", "150000 100000"}, {ParseCPU, "2", "200000 100000"}, {ParseCPU, "0.01", "1000 100000"}, {ParseCPU, "1%", "1000 100000"},
		{ParseCPU, "12.34%", "12340 100000"}, {ParseCPU, "infinity", "max"}, {ParseCPU, "0", ""}, {ParseCPU, "0.009", ""}, {ParseCPU, "0.5%", ""}, {ParseCPU, "1G", ""}, {ParseCPU, "99999999999", ""},
		{ParseWeight, "1", "1"}, {ParseWeight, "10000", "10000"}, {ParseWeight, "0", ""}, {ParseWeight, "10001", ""}, {ParseWeight, "idle", ""},
	} {
		got, err := c.what(c.in)
		if c.want == "" && err == nil || c.want != "" && (err != nil || got != c.want) {
			t.Errorf("%q is %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	if n, err := ParsePIDs("10%"); err != nil || n == "0" {
		t.Errorf("10%% of all processes: %q, %v", n, err)
	}
}

func TestParseFileAndValue(t *testing.T) {
	for in, want := range map[string]string{
		"memory.max=1G": "memory.max=1073741824", "memory.min= 64M ": "memory.min=67108864", "pids.max=infinity": "pids.max=max", "cpu.max=150%": "cpu.max=150000 100000",
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
	for _, s := range []string{"memory.max=1G", "pids.max=5", "memory.max=2G", "pids.max=infinity"} {
		limit, err := ParseLimit(s)
		if err != nil {
			t.Fatal(err)
		}
		l.Put(limit)
	}
	said := func(held ...string) string { return fmt.Sprint(slices.Collect(l.All(&held))) }
	if got := said("memory.max"); got != "[memory.max=2147483648 memory.oom.group=1]" {
		t.Error(got)
	}
	if got := said("pids.max"); got != "[memory.max=2147483648]" {
		t.Error(got)
	}
	l.Put(Limit{oomGroup, "0"})
	if got := said("memory.max"); got != "[memory.max=2147483648 memory.oom.group=0]" {
		t.Error(got)
	}
}

// What is accepted is what exact arithmetic makes of it, and nothing is too large for the kernel.
func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"1G", "0.5T", "18446744073709551615", "1.99999999999999999999E", "7.999999999999E", "12.5%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseMemory(s)
		if err != nil || got == none || strings.HasSuffix(s, "%") {
			return
		}
		n, ok := new(big.Int).SetString(got, 10)
		want, sure := exactly(s)
		if !ok || !n.IsUint64() || !sure || n.Cmp(want) > 0 || new(big.Int).Sub(want, n).Cmp(big.NewInt(2)) > 0 {
			t.Errorf("%q is %s, want %v", s, got, want)
		}
	})
}

// exactly rounds down.
func exactly(s string) (*big.Int, bool) {
	scale := int64(1)
	for _, suffix := range []string{"iB", "i"} {
		if unit, ok := strings.CutSuffix(s, suffix); ok && strings.ContainsAny(last(unit), "KMGTPE") {
			s = unit
		}
	}
	if i := strings.Index("BKMGTPE", last(s)); s != "" && i >= 0 {
		scale, s = 1<<(10*i), s[:len(s)-1]
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, false
	}
	r.Mul(r, new(big.Rat).SetInt64(scale))
	return new(big.Int).Quo(r.Num(), r.Denom()), true
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
