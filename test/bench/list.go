// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	herdSize   = 1000
	listRounds = 30
)

// listSections compare `ls` with a program in C that reads the same and looks at none of it.
func listSections(b *testing.B) []Section {
	s := Section{Title: fmt.Sprintf("Looking at %d servers, from exec to exit", herdSize), Base: "a bare walk (C)"}
	h, err := newHerd(herdSize)
	must(b, err)
	defer func() { must(b, h.end()) }()
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}} {
		var p pairs
		for round := range rounds(listRounds) + 1 {
			base := lookedAt(b, herdSize, walkFile, h.slice, strconv.Itoa(os.Getpid()))
			ours := lookedAt(b, herdSize, mcpscopeFile, args...)
			if round > 0 { // the first is to warm up
				p.add(base, ours)
			}
		}
		r := p.row(strings.Join(args, " "), "ms", time.Millisecond)
		r.aim("≤ 2", r.Ratio <= 2)
		s.Rows = append(s.Rows, r)
	}
	return []Section{s}
}

// lookedAt is how long a program takes that must have seen n servers.
func lookedAt(b *testing.B, n int, file string, args ...string) time.Duration {
	b.Helper()
	begin := time.Now()
	out, err := exec.Command(file, args...).Output()
	took := time.Since(begin)
	must(b, err)
	if string(bytes.TrimSpace(out)) != strconv.Itoa(n) && bytes.Count(out, []byte("herd")) < n {
		b.Fatalf("%s %q saw less than %d servers", file, args, n)
	}
	return took
}
