// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseCgroup(t *testing.T) {
	const hybrid = "9:name=systemd:/user.slice\n8:pids:/\n1:cpu,cpuacct:/a (deleted)\n"
	tests := []struct {
		name, text, path string
		deleted, ok      bool
	}{
		{"root", "0::/\n", "/", false, true},
		{"scope", "0::/user.slice/user-1000.slice/user@1000.service/mcp.slice/mcp-x-1.scope/payload\n", "/user.slice/user-1000.slice/user@1000.service/mcp.slice/mcp-x-1.scope/payload", false, true},
		{"hybrid", hybrid + "0::/g\n", "/g", false, true},
		{"version 1 only", hybrid, "", false, false},
		{"no newline at the end", "0::/g", "/g", false, true},

		{"removed", "0::/g (deleted)\n", "/g", true, true},
		{"removed, and named so", "0::/pt sp (deleted) (deleted)\n", "/pt sp (deleted)", true, true},
		{"nearly removed", "0::/g (deleted) \n", "/g (deleted) ", false, true},

		{"nothing is escaped", "0::/pt\\012x\n", "/pt\\012x", false, true},
		{"looks like a line", "0::/a0::/b\n", "/a0::/b", false, true},

		{"named hierarchy with an empty path", "1:name=0::/x\n", "", false, false},
		{"no path", "0::\n", "", false, false},
	}
	for _, tt := range tests {
		path, deleted, ok := ParseCgroup([]byte(tt.text))
		if path != tt.path || deleted != tt.deleted || ok != tt.ok {
			t.Errorf("%s: got %q, %v, %v", tt.name, path, deleted, ok)
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("9:name=systemd:/\n0::/a b (deleted)\n"))
	f.Add([]byte("0::\n0::/x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path, deleted, ok := ParseCgroup(b)
		if !ok {
			if path != "" || deleted {
				t.Fatalf("%q, %v without ok", path, deleted)
			}
			return
		}
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "\n") {
			t.Fatalf("no path of one line: %q", path)
		}
		line := "0::" + path
		if deleted {
			line += deletedMark
		}
		if !strings.Contains(string(b), line) {
			t.Fatalf("%q is not in the file", line)
		}
	})
}

func TestOneLine(t *testing.T) {
	tests := []struct {
		name, text string
		cut        bool
		want       string
	}{
		{"usual", "node\x00server.js\x00--port=1\x00", false, "node server.js --port=1"},
		{"rewritten title", "sshd: root@pts/0\x00\x00\x00\x00", false, "sshd: root@pts/0"},
		{"escape sequence", "\x1b[2J\x00\x9b\x00", false, "?[2J ?"},
		{"newline", "sh\x00-c\x00a\n\tb\x00", false, "sh -c a??b"},
		{"control character of two bytes", "a\u0085b", false, "a?b"},
		{"turned text", "a\u202eb\u2066c\u2028d\u2029", false, "a?b?c?d?"},
		{"not UTF-8", "a\xffb\xc3", false, "a?b?"},
		{"cut within a rune", "ab\xe5\x90", true, "ab"},
		{"cut within a rune of four", "ab\xf0\x9f\x98", true, "ab"},
		{"stray continuation bytes", "\x80\x80\x80\x80", true, "????"},
	}
	for _, tt := range tests {
		if got := oneLine([]byte(tt.text), tt.cut); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add([]byte("node\x00server.js\x00"), false)
	f.Add([]byte("\xf0\x9f\x98"), true)
	f.Add([]byte("\u0085\u202e\x80"), false)
	f.Fuzz(func(t *testing.T, b []byte, cut bool) {
		s := oneLine(b, cut)
		if !utf8.ValidString(s) || len(s) > len(b) || strings.ContainsFunc(s, misleads) {
			t.Fatalf("%q became %q", b, s)
		}
	})
}

func TestKeyed(t *testing.T) {
	const events = "populated 1\nfrozen 0\n"
	const cpu = "usage_usec 84133528\nuser_usec 55384937\nsystem_usec 28748590\nnice_usec 0\ncore_sched.force_idle_usec 18446744073709551615\n"
	const memory = "low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n"
	tests := []struct {
		name, text, key string
		want            uint64
		ok              bool
	}{
		{"first", events, "populated", 1, true},
		{"missing", events, "Frozen", 0, false},
		{"largest", cpu, "core_sched.force_idle_usec", 1<<64 - 1, true},
		{"a key that begins another", memory, "oom", 2, true},
		{"no newline at the end", "frozen 1", "frozen", 1, true},
		{"empty file", "", "frozen", 0, false},
		{"empty value", "frozen \n", "frozen", 0, false},
		{"no number", "max max\n", "max", 0, false},
		{"too large", "frozen 18446744073709551616\n", "frozen", 0, false},
		{"two values", "frozen 1 2\n", "frozen", 0, false},
	}
	for _, tt := range tests {
		got, ok := Keyed([]byte(tt.text), tt.key)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %d, %v", tt.name, got, ok)
		}
	}
}

func FuzzKeyed(f *testing.F) {
	f.Add([]byte("populated 1\nfrozen 0\n"), "frozen")
	f.Add([]byte("oom_kill 1\noom x"), "oom")
	f.Add([]byte("\n \n"), "\n")
	f.Fuzz(func(t *testing.T, b []byte, key string) {
		got, ok := Keyed(b, key)
		if want, wantOK := keyedSimply(b, key); got != want || ok != wantOK {
			t.Fatalf("got %d, %v, want %d, %v", got, ok, want, wantOK)
		}
	})
}

// keyedSimply is Keyed for readers, and for comparison.
func keyedSimply(b []byte, key string) (uint64, bool) {
	for _, line := range bytes.Split(b, []byte("\n")) {
		value, found := strings.CutPrefix(string(line), key+" ")
		if found && value != "" && key != "" {
			v, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				v = 0
			}
			return v, err == nil
		}
	}
	return 0, false
}

const limits = `Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file locks            7881299347898368     unlimited            locks     
Max open files            1024                 524288               files     
`

func TestParseLimit(t *testing.T) {
	for name, want := range map[string]uint64{"Max cpu time": math.MaxUint64, LimitLocks: 7881299347898368, "Max open files": 1024} {
		if got, ok := ParseLimit([]byte(limits), name); got != want || !ok {
			t.Errorf("%s is %d (%v), want %d", name, got, ok, want)
		}
	}
	for _, text := range []string{"", "\n", "Max file locks", "Max file locks ", "Max file locks  x y locks\n", "Max file locksmith 1 2 x\n", "Max file locks 99999999999999999999 1 l\n"} {
		if got, ok := ParseLimit([]byte(text), LimitLocks); ok {
			t.Errorf("%q gives %d", text, got)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	f.Add([]byte(limits), LimitLocks)
	f.Fuzz(func(_ *testing.T, b []byte, name string) { ParseLimit(b, name) })
}

func TestParseCgroup2Mounts(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Mount
	}{
		{"unified", "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
			[]Mount{{"/", "/sys/fs/cgroup", false}}},
		{"hybrid", "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
			[]Mount{{"/", "/sys/fs/cgroup/unified", false}}},
		{"read-only mount", "42 27 0:38 / /a ro,relatime - cgroup2 none rw\n", []Mount{{"/", "/a", true}}},
		{"read-only file system", "42 27 0:38 / /a rw,relatime - cgroup2 none ro,nsdelegate\n", []Mount{{"/", "/a", true}}},
		{"a directory of the hierarchy", "50 41 0:38 /system.slice/x.service /run/cg rw - cgroup2 cgroup2 rw\n",
			[]Mount{{"/system.slice/x.service", "/run/cg", false}}},

		{"escapes", `42 27 0:38 /r\011\012x /tmp/m\040t\134x rw - cgroup2 none rw` + "\n",
			[]Mount{{"/r\t\nx", `/tmp/m t\x`, false}}},
		{"an escaped backslash before digits", `42 27 0:38 / /a\134040 rw - cgroup2 none rw`, []Mount{{"/", `/a\040`, false}}},

		{"empty source", "42 27 0:38 / /a rw - cgroup2  rw\n", []Mount{{"/", "/a", false}}},
		{"one over the other", "1 0 0:3 / /a rw - cgroup2 c rw\n2 1 0:3 /x /a ro - cgroup2 c rw\n",
			[]Mount{{"/", "/a", false}, {"/x", "/a", true}}},

		{"another file system", "42 27 0:38 / /a rw - tmpfs cgroup2 rw\n", nil},
		{"no dash", "42 27 0:38 / /a rw shared:1 cgroup2 none rw\n", nil},
		{"cut", "42 27 0:38 / /a rw - cgroup2 none", nil},
		{"good lines among bad", "x\n\n42 27 0:38 / /a rw - cgroup2 none rw\n - - - - - - - -\n", []Mount{{"/", "/a", false}}},
	}
	for _, tt := range tests {
		if got := ParseCgroup2Mounts([]byte(tt.text)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got  %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

func FuzzParseCgroup2Mounts(f *testing.F) {
	f.Add([]byte("42 27 0:38 / /tmp/m\\040t\\134x ro,relatime shared:1 - cgroup2 none rw\n"))
	f.Add([]byte("1 2 3 \\777 \\ - - cgroup2  "))
	f.Fuzz(func(t *testing.T, b []byte) {
		mounts := ParseCgroup2Mounts(b)
		if n := strings.Count(string(b), " cgroup2 "); len(mounts) > n {
			t.Fatalf("%d mounts in a file that names %d", len(mounts), n)
		}
		for _, m := range mounts {
			if len(m.Root)+len(m.Target) > len(b) {
				t.Fatalf("%+v is longer than the file", m)
			}
		}
	})
}

func TestParsePIDs(t *testing.T) {
	tests := []struct {
		name, text string
		want       []int
	}{
		{"empty group", "", nil},
		{"twice", "9\n1\n9\n1\n", []int{9, 1}},
		{"of other pid namespaces", "0\n7\n0\n", []int{0, 7}},
		{"largest", "2147483647\n4194304\n", []int{1<<31 - 1, 4194304}},
		{"no newline at the end", "1\n2", []int{1, 2}},
	}
	for _, tt := range tests {
		got, err := ParsePIDs([]byte(tt.text))
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		}
	}
}

func TestParsePIDsErrors(t *testing.T) {
	for _, text := range []string{"\n", "x\n", "1\n\n2\n", "-1\n", "+1\n", "1 2\n", " 1\n", "1\r\n", "2147483648\n", "1\n\x00"} {
		got, err := ParsePIDs([]byte(text))
		if err == nil || got != nil || !strings.HasPrefix(err.Error(), "parse pids: pid ") {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestParseChildren(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "12 ": {12}, "12 7 12 9 ": {12, 7, 9}} {
		got, err := parseChildren([]byte(text))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	if got, err := parseChildren([]byte("12 -1 ")); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

func FuzzParsePIDs(f *testing.F) {
	f.Add([]byte("9\n0\n9\n"))
	f.Add([]byte("\n-1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		pids, err := ParsePIDs(b)
		if err != nil {
			return
		}
		text := ""
		for _, pid := range pids {
			text += fmt.Sprintln(pid)
		}
		again, err := ParsePIDs([]byte(text))
		if err != nil || !slices.Equal(again, pids) {
			t.Fatalf("%v printed and parsed is %v, %v", pids, again, err)
		}
		slices.Sort(pids)
		if len(slices.Compact(pids)) != len(again) || len(pids) > 0 && pids[0] < 0 {
			t.Fatalf("twice the same pid, or a negative one: %v", pids)
		}
	})
}

func FuzzParseChildren(f *testing.F) {
	f.Add([]byte("12 13 12 "))
	f.Fuzz(func(t *testing.T, b []byte) {
		if pids, err := parseChildren(b); err != nil && pids != nil {
			t.Fatalf("both pids and an error: %v, %v", pids, err)
		}
	})
}

// tail is what follows the comm of a sleeping shell's line, kernel 6.18.
const statTail = " S 6792 6790 2587 34816 6790 4194304 1126 5021 0 2 17 23 9 4 20 0 3 0 184467 5210112 896 18446744073709551615 94 95 96 0 0 0 65536 4 65538 1 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 0\n"

func TestParseStat(t *testing.T) {
	base := Stat{
		PID: 6794, State: 'S', PPID: 6792, Pgrp: 6790, Session: 2587, TTY: 34816,
		UTime: 17, STime: 23, CUTime: 9, CSTime: 4, StartTime: 184467, Threads: 3,
	}
	comms := []string{
		"bash", "", "tmux: server", "(sd-pam)", ")", "(", "a) (b", "x) R 1 2 3",
		"a)\n (b\\\t\x01\xffz", "kworker/u8:1-events_unbound-and-a-long-name", "0) Z 0 0 0 0 0",
	}
	for _, comm := range comms {
		want := base
		want.Comm = comm
		got, err := ParseStat([]byte("6794 (" + comm + ")" + statTail))
		if err != nil || got != want {
			t.Errorf("comm %q: got %+v, %v", comm, got, err)
		}
	}
	reaped := Stat{PID: 77, Comm: "true", State: 'X', Pgrp: -1, Session: -1, StartTime: 1<<64 - 1}
	text := "77 (true) X 0 -1 -1 0 -1 4194564 0 0 0 0 0 0 0 0 20 0 0 0 18446744073709551615 0 0 0"
	if got, err := ParseStat([]byte(text)); err != nil || got != reaped {
		t.Errorf("while it is being reaped: %+v, %v", got, err)
	}
}

// FuzzParseStat: what can be parsed is what the kernel would print for it.
func FuzzParseStat(f *testing.F) {
	for _, comm := range []string{"bash", "a) (b\n", ") R 1"} {
		f.Add([]byte("6794 (" + comm + ")" + statTail))
	}
	f.Add([]byte("1 (\xff)"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStat(b)
		if err != nil {
			return
		}
		again, err := ParseStat(printStat(s))
		if err != nil || again != s {
			t.Fatalf("%+v printed and parsed is %+v, %v", s, again, err)
		}
	})
}

func printStat(s Stat) []byte {
	return fmt.Appendf(nil, "%d (%s) %c %d %d %d %d 0 0 0 0 0 0 %d %d %d %d 0 0 %d 0 %d\n",
		s.PID, s.Comm, s.State, s.PPID, s.Pgrp, s.Session, s.TTY, s.UTime, s.STime, s.CUTime, s.CSTime, s.Threads, s.StartTime)
}

const statusSample = `Name:	node
Umask:	0022
State:	S (sleeping)
Tgid:	6794
Ngid:	0
Pid:	6794
PPid:	6792
TracerPid:	12
Uid:	1000	1001	1002	1003
Gid:	100	101	102	4294967295
FDSize:	256
Groups:	4 24 27 
NStgid:	6794	3
NSpid:	6794	3
NSpgid:	6792	0
NSsid:	2587	0
Kthread:	0
VmPeak:	   18140 kB
CoreDumping:	0
Threads:	11
SigQ:	0/96365
SigPnd:	0000000000000001
ShdPnd:	0000000000000200
SigBlk:	fffffffffffffeff
SigIgn:	0000000001001000
SigCgt:	0000000000000002
CapInh:	0000000000000000
Seccomp:	0
Speculation_Store_Bypass:	vulnerable
nonvoluntary_ctxt_switches:	6
`

func TestParseStatus(t *testing.T) {
	nobody := uint32(1<<32 - 1) // (gid_t)-1, which an int of 32 bits wraps
	got, err := ParseStatus([]byte(statusSample))
	want := Status{
		Name: "node", State: 'S', Tgid: 6794, PPid: 6792, TracerPid: 12,
		UID: [4]int{1000, 1001, 1002, 1003}, GID: [4]int{100, 101, 102, int(nobody)},
		NSpid: []int{6794, 3}, Threads: 11,
		SigPnd: 1, ShdPnd: 0x200, SigBlk: 0xfffffffffffffeff, SigIgn: 0x1001000, SigCgt: 2,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestParseStatusName(t *testing.T) {
	tests := []struct{ line, want string }{
		{"tmux: server", "tmux: server"},
		{`a)\n (b\\` + "\t\x01\xffz", "a)\n (b\\\t\x01\xffz"},
		{`x\\ny) R 1 2`, `x\ny) R 1 2`},
		{`\\\n`, "\\\n"},
		{`end\`, `end\`},
		{`\q`, `\q`},
		{`State:\tZ`, `State:\tZ`},
	}
	for _, tt := range tests {
		text := strings.Replace(statusSample, "Name:\tnode", "Name:\t"+tt.line, 1)
		got, err := ParseStatus([]byte(text))
		if err != nil || got.Name != tt.want || got.State != 'S' {
			t.Errorf("%q: got %q, %v, want %q", tt.line, got.Name, err, tt.want)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(statusSample))
	f.Add([]byte("Name:\t\\\nState:\t\nTgid:\t1"))
	f.Add([]byte("State:\tZ\nTgid:\t7\nUid:\t\nNSpid:\t"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStatus(b)
		if err == nil && (s.State == 0 || s.Tgid == 0) {
			t.Fatalf("no error for a status without state or tgid: %+v", s)
		}
		if err != nil && !reflect.DeepEqual(s, Status{}) {
			t.Fatalf("both a value and an error: %+v, %v", s, err)
		}
	})
}
