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

func TestEventForPeople(t *testing.T) {
	defer func(before *time.Location) { time.Local = before }(time.Local)
	time.Local = time.UTC
	const head = `{"__REALTIME_TIMESTAMP":"1795161600500000","_UID":"1000","MCPSCOPE_ID":"hxvqmwb5","MCPSCOPE_NAME":"time",` +
		`"MCPSCOPE_EVENT":`
	for text, want := range map[string]string{
		`"started","MCPSCOPE_BACKEND":"tree","MCPSCOPE_CLIENT":"h","MCPSCOPE_CLIENT_PID":"1"}`:    "started        tree, by h[1]",
		`"ended","MCPSCOPE_CAUSE":"main-exited","MCPSCOPE_SECONDS":"NaN","MCPSCOPE_STUCK":["a"]}`: "ended          main-exited, left: a",
		`"note","MCPSCOPE_NOTE":"not available: \u001b[31m\nx"}`:                                  "note           not available: ?[31m?x",
	} {
		want = "2026-11-20 08:00:00  hxvqmwb5  time              " + want
		lines := 0
		if err := readEntries(strings.NewReader("nonsense\n"+head+text+"\n"), func(e entry) error {
			lines++
			if v, ok := viewEvent(e); !ok || v.line(false, true) != want {
				t.Errorf("%s: %v\n%q\nwant\n%q", text, ok, v.line(false, true), want)
			}
			return nil
		}); err != nil || lines != 1 {
			t.Errorf("%s: %d entries, %v", text, lines, err)
		}
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
