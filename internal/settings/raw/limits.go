// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package raw

import (
	"strings"
	"unsafe"
)

// limitsMost is the number of limits of a command line that raw code reads.
const limitsMost = 8

// value is what is written to a file, with a 0 behind.
type value [32]byte

// putAll puts what --set has.
func (f *Flags) putAll(text string) bool {
	for more := true; more; {
		var limit string
		limit, text, more = strings.Cut(text, ";")
		file, value, _ := strings.Cut(limit, "=")
		if !isLimitFile(file) || !f.put(file, value) {
			return false
		}
	}
	return true
}

// put refuses what main may read in another way: no limit ("max"), and a file that has a limit already.
func (f *Flags) put(file, text string) bool {
	if text == "max" {
		return false
	}
	at := uint32(0)
	for range limitsMost {
		known, _ := f.Limits.Next(&at)
		if known == "" {
			wanted := value{}
			return setValue(&wanted, file, text) &&
				f.Limits.Add(file, Text(uintptr(unsafe.Pointer(&wanted))))
		}
		if known == file {
			return false
		}
	}
	return false
}

// setValue writes what main would write: plain numbers in place of sizes and percentages.
func setValue(to *value, file, text string) bool {
	const leastMemory = 1 << 20
	switch {
	case file == "memory.max", file == "memory.high":
		size, ok := parseSize(text)
		writeNumber(to, size)
		return ok && size >= leastMemory
	case strings.HasPrefix(file, "memory.") && file != "memory.oom.group":
		size, ok := parseSize(text)
		writeNumber(to, size)
		return ok
	case file == "cpu.max" && strings.HasSuffix(text, "%"):
		percent, ok := integer(text[:len(text)-1])
		const most = 1e9
		const period = " 100000" // microseconds, of which a percent is 1,000
		n := writeNumber(to, percent*1000)
		copy(to[n&31:], period)
		return ok && percent > 0 && percent <= most
	case file == "pids.max":
		number, ok := integer(text)
		const most = 1e9
		copy(to[:], text)
		return ok && number > 0 && number <= most
	}
	return copy(to[:len(to)-1], text) == len(text) && isPlainValue(text)
}

// isLimitFile reports whether a file is one of the usual controllers.
func isLimitFile(file string) bool {
	controller, rest, _ := strings.Cut(file, ".")
	switch controller {
	case "cpu", "io", "memory", "pids":
		return rest != "" && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz._") == ""
	}
	return false
}

// isPlainValue reports whether a value has neither spaces nor characters that a person can't see.
func isPlainValue(value string) bool {
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			return false
		}
	}
	return value != ""
}

// parseSize reads a number of bytes, with K, M, G and T for powers of 1024.
func parseSize(value string) (size uint64, ok bool) {
	digits := strings.TrimRight(value, "KMGT")
	number, ok := integer(digits)
	switch value[len(digits):] {
	case "":
		return number, ok
	case "K":
		number <<= 10
	case "M":
		number <<= 20
	case "G":
		number <<= 30
	case "T":
		number <<= 40
	default:
		return 0, false
	}
	return number, ok && len(digits) <= len("999999")
}

// writeNumber returns how many digits it has.
func writeNumber(to *value, number uint64) (n int) {
	n = 1
	for rest := number / 10; rest > 0; rest /= 10 {
		n++
	}
	for i := n - 1; i >= 0; i-- {
		to[i&31] = byte('0' + number%10)
		number /= 10
	}
	return n
}
