// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseCgroup(t *testing.T) {
	const hybrid = "9:name=systemd:/user.slice\n8:pids:/\n1:cpu,cpuacct:/a (deleted)\n"
	for text, want := range map[string]string{
		"0::/\n":                   "/",
		"0::/g":                    "/g",
		hybrid + "0::/g/payload\n": "/g/payload",
		hybrid:                     "",
		"1:name=0::/x\n":           "",
		"0::\n":                    "",
		"0::/g (deleted)\n":        "/g (deleted)",
		"0::/pt\\012x\n":           "/pt\\012x", // nothing is escaped
		"0::/a0::/b\n":             "/a0::/b",
	} {
		if got, ok := ParseCgroup([]byte(text)); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, ok, want)
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("9:name=systemd:/\n0::/a b (deleted)\n"))
	f.Add([]byte("0::\n0::/x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path, ok := ParseCgroup(b)
		if !ok && path == "" {
			return
		}
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "\n") {
			t.Fatalf("no path of one line: %q", path)
		}
		if !strings.Contains(string(b), "0::"+path) {
			t.Fatalf("%q is not in the file", path)
		}
	})
}

func TestKeyed(t *testing.T) {
	const text = "populated 1\noom 2\noom_kill 18446744073709551615\nmax max\nbig 18446744073709551616\nempty \ntwo 1 2\nlast 3"
	for key, want := range map[string]uint64{"populated": 1, "oom": 2, "oom_kill": 1<<64 - 1, "last": 3} {
		if got, ok := Keyed([]byte(text), key); got != want || !ok {
			t.Errorf("%s: got %d, %v", key, got, ok)
		}
	}
	for _, key := range []string{"Populated", "max", "big", "empty", "two", "", "kill"} {
		if got, ok := Keyed([]byte(text), key); got != 0 || ok {
			t.Errorf("%s: got %d, %v", key, got, ok)
		}
	}
}

const limits = `Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file locks            7881299347898368     unlimited            locks     
Max open files            1024                 524288               files     
`

func TestParseFileLocks(t *testing.T) {
	if got, ok := parseFileLocks([]byte(limits)); got != 7881299347898368 || !ok {
		t.Errorf("got %d, %v", got, ok)
	}
	for _, text := range []string{"", "\n", "\nMax file locks", "\nMax file locks ", "\nMax file locks  unlimited unlimited locks\n",
		"\nMax file locksmith 1 2 x\n", "\nMax file locks 99999999999999999999 1 l\n"} {
		if got, ok := parseFileLocks([]byte(text)); ok {
			t.Errorf("%q gives %d", text, got)
		}
	}
}

func TestParsePIDs(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "9\n1\n9\n1\n": {1, 9}, "0\n7\n0\n": {0, 7}, "12 7 12 9 ": {7, 9, 12},
		"2147483647\n4194304": {4194304, 1<<31 - 1}} {
		got, err := ParsePIDs([]byte(text))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x\n", "-1\n", "12 -1 ", "+1\n", "2147483648\n", "1\n\x00"} {
		got, err := ParsePIDs([]byte(text))
		if err == nil || got != nil || !strings.HasPrefix(err.Error(), "parse pids: ") {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

// statTail follows the comm in the line of a sleeping shell, kernel 6.18.
const statTail = " S 6792 6790 2587 34816 6790 4194304 1126 5021 0 2 17 23 9 4 20 0 3 0 184467 5210112 896 18446744073709551615 94 95 96 0 0 0 65536 4 65538 1 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 0\n"

func TestParseStat(t *testing.T) {
	base := Stat{
		PID: 6794, State: 'S', PPID: 6792,
		Ticks: 40, ChildTicks: 13, ChildFaults: 5021, StartTime: 184467, Threads: 3,
		Terminal: 34816, Foreground: true, // pts/0
		Processor: 1,
	}
	for _, comm := range []string{"bash", "", "tmux: server", "(sd-pam)", ")", "(", "a) (b", "x) R 1 2 3",
		"a)\n (b\\\t\x01\xffz"} {
		want := base
		want.Comm = comm
		got, err := ParseStat([]byte("6794 (" + comm + ")" + statTail))
		if err != nil || got != want {
			t.Errorf("comm %q: got %+v, %v", comm, got, err)
		}
	}
	reaped := Stat{PID: 77, Comm: "true", State: 'X', Exiting: true, StartTime: 1<<64 - 1}
	text := "77 (true) X 0 -1 -1 0 -1 4194564 0 0 0 0 0 0 0 0 20 0 0 0 18446744073709551615 0 0 0"
	if got, err := ParseStat([]byte(text)); err != nil || got != reaped {
		t.Errorf("while it is being reaped: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "6794 bash S 1", "6794 (bash S 1 2 3", "6794 (",
		"6794 (bash) S 6792 6790", "4294967296 (bash)" + statTail} {
		if got, err := ParseStat([]byte(bad)); err == nil || got != (Stat{}) {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

// FuzzParseStat: printed as the kernel does, a parsed line is the same.
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
	foreground := -1
	if s.Foreground {
		foreground = 0 // its own group
	}
	return fmt.Appendf(nil, "%d (%s) %c %d 0 0 %d %d 0 0 %d 0 0 %d %d %d %d 0 0 %d 0 %d"+strings.Repeat(" 0", 16)+" %d\n",
		s.PID, s.Comm, s.State, s.PPID, int32(s.Terminal), foreground, s.ChildFaults, s.Ticks/4, s.Ticks-s.Ticks/4, s.ChildTicks/4, s.ChildTicks-s.ChildTicks/4,
		s.Threads, s.StartTime, s.Processor)
}

const statusSample = `Name:	node
State:	S (sleeping)
Tgid:	6794
Pid:	6794
PPid:	6792
TracerPid:	12
Uid:	1000	1001	1002	1003
Gid:	100	101	102	4294967295
Groups:	4 24 27 
NSpid:	6794	3
VmPeak:	   18140 kB
Threads:	11
SigQ:	0/96365
SigPnd:	0000000000000001
ShdPnd:	0000000000000200
SigBlk:	fffffffffffffeff
SigIgn:	0000000001001000
SigCgt:	0000000000000002
`

func TestParseStatus(t *testing.T) {
	got, err := ParseStatus([]byte(statusSample))
	want := Status{
		Tgid: 6794, Tracer: 12, UID: [4]int{1000, 1001, 1002, 1003}, Inside: 3, Nested: true,
		Pending: 1 << 9,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	for old, bad := range map[string]string{
		"Tgid:\t6794\n": "", "Tgid:\t6794": "Tgid:\tx",
		"Uid:\t1000\t": "Uid:\t",
	} {
		if got, err := ParseStatus([]byte(strings.Replace(statusSample, old, bad, 1))); err == nil ||
			!reflect.DeepEqual(got, Status{}) {
			t.Errorf("%q for %q: got %+v, %v", bad, old, got, err)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(statusSample))
	f.Add([]byte("Name:\t\\\nState:\t\nTgid:\t1"))
	f.Add([]byte("State:\tZ\nTgid:\t7\nUid:\t\nNSpid:\t"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStatus(b)
		if err == nil && s.Tgid == 0 {
			t.Fatalf("no error for a status without tgid: %+v", s)
		}
		if err != nil && !reflect.DeepEqual(s, Status{}) {
			t.Fatalf("both a value and an error: %+v, %v", s, err)
		}
	})
}
