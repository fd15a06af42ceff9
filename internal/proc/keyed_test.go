// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

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
