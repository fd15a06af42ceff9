// SPDX-License-Identifier: Apache-2.0

// Package similar finds names that a person may have mistyped.
package similar

import "strings"

// longName is the length from which a name may have two mistakes. A shorter one would be similar to others:
// docker to doctor.
const longName = 8

// Meant asks whether one of these names was meant: the end of an error, "" without any.
func Meant(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}

// Among returns those of the names that may be meant.
func Among(typed string, names []string) (near []string) {
	for _, name := range names {
		if Is(typed, name) {
			near = append(near, name)
		}
	}
	return near
}

// Is reports whether a text is the beginning of a name, or the name with one mistake: a letter that is
// missing, added, changed, or swapped with its neighbour. Long names may have two.
func Is(typed, name string) bool {
	if typed == "" {
		return false
	}
	if strings.HasPrefix(name, typed) {
		return true
	}
	most := 1
	if len(typed) >= longName {
		most = 2
	}
	return mistakes(typed, name) <= most
}

// mistakes is the number of bytes that were removed, inserted, replaced, or swapped with the next one, to get
// from a name to the typed text (optimal string alignment).
func mistakes(typed, name string) int {
	// Rows are for each beginning of typed, columns for each beginning of name. A swap needs the row before
	// the last one.
	before := make([]int, len(name)+1)
	last := make([]int, len(name)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(typed) {
		row := make([]int, len(name)+1)
		row[0] = i + 1
		for j := range len(name) {
			replaced := last[j]
			if typed[i] != name[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && typed[i] == name[j-1] && typed[i-1] == name[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before = last
		last = row
	}
	return last[len(name)]
}
