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
}

func TestParseStatOfOddProcesses(t *testing.T) {
	tests := []struct {
		name, text string
		want       Stat
	}{
		{
			"init, which has no parent",
			"1 (systemd) S 0 1 1 0 -1 4194560 9 8 7 6 31 62 5 4 20 0 1 0 2 1 1 1 1 1",
			Stat{PID: 1, Comm: "systemd", State: 'S', Pgrp: 1, Session: 1, UTime: 31, STime: 62, CUTime: 5, CSTime: 4, StartTime: 2, Threads: 1},
		},
		{
			"while it is being reaped",
			"77 (true) X 0 -1 -1 0 -1 4194564 0 0 0 0 0 0 0 0 20 0 0 0 9 0 0 0 0 0",
			Stat{PID: 77, Comm: "true", State: 'X', Pgrp: -1, Session: -1, StartTime: 9},
		},
		{
			"a zombie whose other threads run",
			"78 (server) Z 1 78 78 0 -1 4227084 0 0 0 0 1 2 0 0 20 0 5 0 18446744073709551615 0 0 0",
			Stat{PID: 78, Comm: "server", State: 'Z', PPID: 1, Pgrp: 78, Session: 78, UTime: 1, STime: 2, StartTime: 1<<64 - 1, Threads: 5},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseStat([]byte(tt.text))
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseStatErrors(t *testing.T) {
	good := "6794 (bash)" + statTail
	tests := []struct{ name, text, want string }{
		{"empty", "", "no comm in parentheses"},
		{"no comm", "6794 bash S 1", "no comm in parentheses"},
		{"comm left open", "6794 (bash S 1 2 3", "no comm in parentheses"},
		{"the wrong way round", "6794 )(", "no comm in parentheses"},
		{"one parenthesis for two", "6794 (", "no comm in parentheses"},
		{"nothing behind it", "6794 (bash)", "0 fields"},
		{"cut", "6794 (bash) S 6792 6790 2587", "4 fields"},
		{"state no letter", strings.Replace(good, " S ", " \x80 ", 1), `state "\x80": no letter`},
		{"pid no number", strings.Replace(good, "6794", "x", 1), `pid "x": invalid syntax`},
		{"pid missing", strings.Replace(good, "6794", "", 1), `pid "": invalid syntax`},
		{"pid too large", strings.Replace(good, "6794", "4294967296", 1), `pid "4294967296": value out of range`},
		{"negative time", strings.Replace(good, " 17 23 ", " -17 23 ", 1), `utime "-17"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseStat([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || got != (Stat{}) {
				t.Errorf("got %+v, error %v, want %q", got, err, tt.want)
			}
		})
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
