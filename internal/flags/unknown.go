// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"
	"strings"
)

// leastSimilar is the length from which a name is compared: a shorter one is similar to many.
const leastSimilar = 3

// UnknownError is the error about a flag that the command does not have.
type UnknownError struct {
	As   string   // with its dashes
	Near []string // flags that may be meant
}

func (e *UnknownError) Error() string {
	if len(e.Near) == 0 {
		return fmt.Sprintf("unknown flag %q", e.As)
	}
	return fmt.Sprintf("unknown flag %q; did you mean %s?", e.As, strings.Join(e.Near, " or "))
}

func unknown(known []Flag, as string) error {
	var near []string
	for _, flag := range known {
		if isSimilar(strings.TrimLeft(as, "-"), flag.Name) {
			near = append(near, Dashes(flag.Name))
		}
	}
	return &UnknownError{As: as, Near: near}
}

// isSimilar reports whether a name is the beginning of another one, or differs in one letter of three, and in
// two at most.
func isSimilar(typed, name string) bool {
	if len(typed) < leastSimilar {
		return false
	}
	return strings.HasPrefix(name, typed) || distance(typed, name) <= min(2, len(typed)/3)
}

// distance is how many bytes have to be inserted, removed or replaced to get from one text to another
// (Levenshtein).
func distance(from, to string) int {
	row := make([]int, len(to)+1) // from the part of from that was read, to each beginning of to
	for i := range row {
		row[i] = i
	}
	for i := range len(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(to) {
			replaced := diagonal
			if from[i] != to[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
