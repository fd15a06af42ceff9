// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseMemory reads a size of at least 1 MiB; a smaller one lacks its unit. K, M, G and T are powers of
// 1024.
func ParseMemory(s string) (string, error) {
	text, err := parseSize(s)
	if n, _ := strconv.ParseUint(text, 10, 64); err == nil && text != none && n < 1<<20 {
		return "", fmt.Errorf("%q is too small: nothing runs with less than 1M; did you mean %sM?",
			s, strings.TrimRight(s, "K"))
	}
	return text, err
}

func parseSize(s string) (string, error) {
	if s == none {
		return none, nil
	}
	digits, shift := s, 0
	if last := len(s) - 1; last > 0 {
		if i := strings.IndexByte("KMGT", s[last]); i >= 0 {
			digits, shift = s[:last], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 62-shift)
	if err != nil {
		return "", fmt.Errorf("%q is no size (like 512M, 2G or max)", s)
	}
	return strconv.FormatUint(n<<shift, 10), nil
}

// ParsePIDs reads a number of processes and threads above zero.
func ParsePIDs(s string) (string, error) {
	if n, err := strconv.ParseUint(s, 10, 31); s != none && (err != nil || n == 0) {
		return "", fmt.Errorf("%q is no number of processes (like 100 or max)", s)
	}
	return s, nil
}

// cpuPeriod is the kernel's own, in microseconds.
const cpuPeriod = 100_000

// ParseCPU reads a percentage of one processor.
func ParseCPU(s string) (string, error) {
	if s == none {
		return none, nil
	}
	number, ok := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(number, 10, 31)
	if !ok || err != nil || n == 0 {
		return "", fmt.Errorf("%q is no percentage of a processor (like 150%% or max)", s)
	}
	return fmt.Sprintf("%d %d", n*cpuPeriod/100, cpuPeriod), nil
}
