// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"strings"
	"testing"
)

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

func TestParseStatErrors(t *testing.T) {
	good := "6794 (bash)" + statTail
	tests := []struct{ name, text, want string }{
		{"empty", "", "no comm in parentheses"},
		{"no comm", "6794 bash S 1", "no comm in parentheses"},
		{"comm left open", "6794 (bash S 1 2 3", "no comm in parentheses"},
		{"cut", "6794 (bash) S 6792 6790 2587", "4 fields"},
		{"state no letter", strings.Replace(good, " S ", " \x80 ", 1), `state "\x80": no letter`},
		{"pid no number", strings.Replace(good, "6794", "x", 1), `pid "x": invalid syntax`},
		{"pid too large", strings.Replace(good, "6794", "4294967296", 1), `pid "4294967296": value out of range`},
		{"negative time", strings.Replace(good, " 17 23 ", " -17 23 ", 1), `utime "-17"`},
	}
	for _, tt := range tests {
		got, err := ParseStat([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) || got != (Stat{}) {
			t.Errorf("%s: got %+v, error %v, want %q", tt.name, got, err, tt.want)
		}
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
