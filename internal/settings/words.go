// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"fmt"
	"strings"
)

// maxWord is how much of a word is repeated: a key may be as long as the file.
const maxWord = 60

func clipped(s string) string {
	if r := []rune(s); len(r) > 3*maxWord {
		return string(r[:3*maxWord]) + "…"
	}
	return s
}

func quoted(s string) string {
	if r := []rune(s); len(r) > maxWord {
		s = string(r[:maxWord]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// dotted is a path as a file has it.
func dotted(keys []string) string {
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte('.')
		}
		if strings.Trim(k, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == "" && k != "" {
			b.WriteString(k)
		} else {
			b.WriteString(quoted(k))
		}
	}
	return clipped(b.String())
}

// guess is the word that was meant, as far as that can be told.
func guess(word string, known []string) string {
	best, least := "", len(word)/2+1
	if len(word) > maxWord {
		return ""
	}
	for _, k := range known {
		if d := Distance(word, k); d < least || strings.HasPrefix(k, word) && best == "" && len(word) > 2 {
			best, least = k, min(d, least)
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; is it %q?", best)
}

// Distance is how many letters have to be changed, left out or added (Levenshtein).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1)
			if a[i] == b[j] {
				next = min(next, diagonal)
			} else {
				next = min(next, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
