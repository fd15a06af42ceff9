// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

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
