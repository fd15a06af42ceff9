// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"reflect"
	"strings"
	"testing"
)

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

func TestParseStatusErrors(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"empty", statusSample, "", "no State or no Tgid"},
		{"no state", "State:\tS (sleeping)\n", "", "no State or no Tgid"},
		{"tgid no number", "Tgid:\t6794", "Tgid:\tx", `Tgid "x": invalid syntax`},
		{"negative uid", "Uid:\t1000", "Uid:\t-1", `Uid "-1"`},
		{"signals not hexadecimal", "SigIgn:\t00", "SigIgn:\t0x", "SigIgn"},
		{"namespace pid too large", "NSpid:\t6794\t3", "NSpid:\t6794\t99999999999", "NSpid"},
	}
	for _, tt := range tests {
		got, err := ParseStatus([]byte(strings.Replace(statusSample, tt.old, tt.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !reflect.DeepEqual(got, Status{}) {
			t.Errorf("%s: got %+v, error %v, want %q", tt.name, got, err, tt.want)
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
