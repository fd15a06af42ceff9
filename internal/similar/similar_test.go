// SPDX-License-Identifier: Apache-2.0

package similar

import "testing"

func TestIs(t *testing.T) {
	for _, c := range []struct {
		typed, name string
		want        bool
	}{
		{"sl", "ls", true}, {"ls", "ls", true}, {"tim", "time", true}, {"ti", "time", true}, {"time", "tim", true},
		{"tume", "time", true}, {"itme", "time", true}, {"emit", "time", false}, {"alpha", "time", false},
		{"", "time", false}, {"npx", "top", false}, {"docker", "doctor", false}, {"tiem", "time", true},
		{"jsn", "json", true}, {"memory-mx", "memory-max", true}, {"memori-mx", "memory-max", true},
		{"memori-xm", "memory-max", false}, {"idelfreeze", "idle-freeze", true}, {"idefreez", "idle-freeze", false},
	} {
		if got := Is(c.typed, c.name); got != c.want {
			t.Errorf("%q is similar to %q: %v", c.typed, c.name, got)
		}
	}
}

func TestMistakes(t *testing.T) {
	for words, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"abc", "abc"}: 0, {"memmory-max", "memory-max"}: 1,
		{"jsno", "json"}: 1, {"kitten", "sitting"}: 3,
	} {
		if got := mistakes(words[0], words[1]); got != want {
			t.Errorf("%q: %d, want %d", words, got, want)
		}
	}
}
