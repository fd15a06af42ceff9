// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Values are read as systemd does: K, M, G, T, P and E are powers of 1024 (KiB and Ki as well), a percentage is one of
// what the machine has, and "infinity" is no limit.

// ParseMemory reads a size, or a part of the physical memory, that a program can run with: what is smaller lacks its unit.
func ParseMemory(s string) (string, error) { return parseSize(s, 1<<20) }

// ParseSwap reads any size, or a part of the physical memory.
func ParseSwap(s string) (string, error) { return parseSize(s, 0) }

func parseSize(s string, least uint64) (string, error) {
	if s == "infinity" || s == none {
		return none, nil
	}
	if n, ok := percent(s); ok {
		var info unix.Sysinfo_t
		if err := unix.Sysinfo(&info); err != nil {
			return "", fmt.Errorf("find out how much memory there is: %w", err)
		}
		return part(s, n, uint64(info.Totalram)*uint64(info.Unit), least)
	}
	n, ok := size(s)
	if !ok {
		return "", fmt.Errorf("%q is no size (like 512M, 1.5G, 10%% or infinity)", s)
	}
	if n < least {
		return "", fmt.Errorf("%q is too small: nothing runs with less than 1M; did you mean %sM?", s, strings.Trim(s, "BKi"))
	}
	return strconv.FormatUint(n, 10), nil
}

// ParsePIDs reads a number of processes and threads above zero, or a part of what the kernel
// allows in all.
func ParsePIDs(s string) (string, error) {
	if s == "infinity" || s == none {
		return none, nil
	}
	if n, ok := percent(s); ok {
		most, err := mostPIDs()
		if err != nil {
			return "", err
		}
		return part(s, n, most, 1)
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 {
		return "", fmt.Errorf("%q is no number of processes (like 100, 10%% or infinity)", s)
	}
	return strconv.FormatUint(n, 10), nil
}

func mostPIDs() (uint64, error) {
	most := uint64(1) << 22 // PID_MAX_LIMIT
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		b, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		most = min(most, n)
	}
	return most, nil
}

// cpuPeriod is the kernel's own, in microseconds, and quotaLeast what it takes at least.
const (
	cpuPeriod  = 100_000
	quotaLeast = 1000
	quotaMost  = 1 << 43 // well below what the kernel takes, in nanoseconds
)

// ParseCPU reads a number of processors, or a percentage of one.
func ParseCPU(s string) (string, error) {
	if s == "infinity" || s == none {
		return none, nil
	}
	quota, ok := percent(s)
	if ok {
		quota *= cpuPeriod / whole
	} else {
		quota, ok = decimal(s, cpuPeriod)
	}
	if !ok || quota < quotaLeast || quota > quotaMost {
		return "", fmt.Errorf("%q is no number of processors (like 1.5, 150%% or infinity), 0.01 at least", s)
	}
	return fmt.Sprintf("%d %d", quota, cpuPeriod), nil
}

// ParseWeight reads a share against others: 1 to 10000, where 100 is what all have.
func ParseWeight(s string) (string, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < 1 || n > 10000 {
		return "", fmt.Errorf("%q is no weight (1 to 10000; others have 100)", s)
	}
	return strconv.FormatUint(n, 10), nil
}

// whole is 100%, in the hundredths of a percent that percent counts.
const whole = 10_000

func percent(s string) (n uint64, ok bool) {
	s, ok = strings.CutSuffix(s, "%")
	if !ok {
		return 0, false
	}
	return decimal(s, whole/100)
}

// part is n hundredths of a percent of all.
func part(s string, n, all, least uint64) (string, error) {
	if n > whole || n == 0 && least > 0 {
		return "", fmt.Errorf("%q is not above 0%% and at most 100%%", s)
	}
	high, low := bits.Mul64(all, n)
	v, _ := bits.Div64(high, low, whole)
	return strconv.FormatUint(max(v, least), 10), nil
}

// size reads bytes with a unit; ok is false for what is none or too large.
func size(s string) (n uint64, ok bool) {
	scale := uint64(1)
	if unit, ok := strings.CutSuffix(strings.TrimSuffix(s, "B"), "i"); ok && strings.ContainsAny(last(unit), "KMGTPE") {
		s = unit
	}
	if i := strings.Index("BKMGTPE", last(s)); s != "" && i >= 0 {
		scale, s = 1<<(10*i), s[:len(s)-1]
	}
	return decimal(s, scale)
}

func last(s string) string { return s[max(len(s)-1, 0):] }

// decimal is s times scale, rounded down; s has digits and perhaps a fraction.
func decimal(s string, scale uint64) (n uint64, ok bool) {
	before, after, dot := strings.Cut(s, ".")
	if !digits(before) || dot && !digits(after) {
		return 0, false
	}
	n, err := strconv.ParseUint(before, 10, 64)
	high, n := bits.Mul64(n, scale)
	if err != nil || high > 0 || n > 1<<63 {
		return 0, false
	}
	after = after[:min(len(after), 18)] // further digits count for nothing
	rest, tens := uint64(0), uint64(1)
	for _, c := range after {
		rest, tens = rest*10+uint64(c-'0'), tens*10
	}
	high, low := bits.Mul64(rest, scale)
	fraction, _ := bits.Div64(high, low, tens)
	return n + fraction, true
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
