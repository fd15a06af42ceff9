// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// one is an entry as journalctl prints it.
func one(t testing.TB, text string) entry {
	t.Helper()
	var all []entry
	if err := readEntries(strings.NewReader(text+"\n"), func(e entry) error {
		all = append(all, e)
		return nil
	}); err != nil || len(all) != 1 {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	return all[0]
}

func TestEventForPeople(t *testing.T) {
	defer func(before *time.Location) { time.Local = before }(time.Local)
	time.Local = time.UTC
	const head = `{"__REALTIME_TIMESTAMP":"1795161600500000","_UID":"1000","MCPSCOPE_ID":"hxvqmwb5","MCPSCOPE_NAME":"time","MCPSCOPE_EVENT":`
	for text, want := range map[string]string{
		`"started","MCPSCOPE_BACKEND":"systemd-user","MCPSCOPE_CLIENT":"hermes","MCPSCOPE_CLIENT_PID":"2211"}`:                                                                                       "started        systemd-user, by hermes[2211]",
		`"ended","MCPSCOPE_CAUSE":"signal","MCPSCOPE_SIGNAL":"SIGTERM","MCPSCOPE_EXIT_STATUS":"3","MCPSCOPE_SECONDS":"8040.5","MCPSCOPE_CPU_SECONDS":"1.1","MCPSCOPE_MEMORY_PEAK_BYTES":"54525952"}`: "ended          signal SIGTERM, status 3, lived 2h14m, CPU 1.1s, peak 52M",
		`"ended","MCPSCOPE_CAUSE":"main-exited","MCPSCOPE_EXIT_SIGNAL":"SIGSEGV","MCPSCOPE_SECONDS":"NaN","MCPSCOPE_STUCK":["a","b"]}`:                                                               "ended          main-exited, by SIGSEGV, left: a, b",
		`"killed","MCPSCOPE_KILLED":["process 7 (sh): new session",[255,27]],"MCPSCOPE_KILLED_TOTAL":"9"}`:                                                                                           "killed         process 7 (sh): new session; \ufffd?; 9 in all",
		`"out-of-memory","MCPSCOPE_OOM_KILLS":"2"}`: "out-of-memory  the kernel killed 2",
		`"out-of-memory","MCPSCOPE_OOM_KILLS":"4","MCPSCOPE_MEMORY_MAX_BYTES":"20971520","MCPSCOPE_MEMORY_PEAK_BYTES":"20971520","MCPSCOPE_BIGGEST":["a b[7] 1048576","x","y -1"]}`: "out-of-memory  the kernel killed 4, limit 20M, peak 20M, most had a b[7] 1.0M; x; y -1",
		`"pids-refused","MCPSCOPE_PIDS_REFUSED":"3","MCPSCOPE_PIDS_MAX":"10"}`:                                                                                                      "pids-refused   3 times, limit 10",
		`"pids-refused","MCPSCOPE_PIDS_REFUSED":"x"}`:                                                                                                                               "pids-refused",
		`"frozen"}`: "frozen",
		`"note","MCPSCOPE_NOTE":"not available: \u001b[31m\nx"}`: "note           not available: ?[31m?x",
		`"note","MCPSCOPE_NOTE":null}`:                           "note",
		`"swept","MCPSCOPE_STUCK":"process 7 (dd)"}`:             "swept          but for process 7 (dd)",
	} {
		v, ok := viewEvent(one(t, head+text))
		if want := "2026-11-20 08:00:00  hxvqmwb5  time              " + want; !ok || v.line(false, true) != want {
			t.Errorf("%s: %v\n%q\nwant\n%q", text, ok, v.line(false, true), want)
		}
	}
}

// Half a line, a long one, and what is no event are passed over.
func TestReadEntries(t *testing.T) {
	n := 0
	text := `{"A":"1"}` + "\nnonsense\n" + `{"B":"` + strings.Repeat("x", 3*entryMost) + "\"}\n\n" + `{"A":["2",null,[51]]}` + "\n" + `{"A":`
	err := readEntries(strings.NewReader(text), func(e entry) error {
		n += len(e["A"])
		if _, ok := viewEvent(e); ok {
			t.Errorf("%v is no event", e)
		}
		return nil
	})
	if n != 3 || err != nil {
		t.Errorf("%d values, %v", n, err)
	}
}

// What a terminal would act on it does not get.
func TestShown(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	const line = "\x1b[31mred\a\tü\xff\u009b"
	if got := shown(w)(line); got != line {
		t.Errorf("into a pipe: %q", got)
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if got := shown(terminal)(line); got != "?[31mred?\tü\ufffd?" {
		t.Errorf("on a terminal: %q", got)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(`{"__REALTIME_TIMESTAMP":"1","_UID":"0","MCPSCOPE_ID":"a","MCPSCOPE_EVENT":"ended","MCPSCOPE_SECONDS":"1e400","MCPSCOPE_STUCK":[[1,2],null,"x"]}`)
	f.Add(`{"__REALTIME_TIMESTAMP":"9223372036854775807","_UID":"0","MCPSCOPE_ID":["a",1],"MCPSCOPE_EVENT":"started"}`)
	f.Fuzz(func(t *testing.T, line string) {
		_ = readEntries(strings.NewReader(line), func(e entry) error {
			v, ok := viewEvent(e)
			if !ok {
				return nil
			}
			if text, err := json.Marshal(v); err != nil || strings.ContainsAny(string(text), "\n\x1b") {
				t.Errorf("%q: %q, %v", line, text, err)
			}
			if text := v.line(true, true); text != cli.OneLine(text) {
				t.Errorf("%q: %q", line, text)
			}
			return nil
		})
	})
}
