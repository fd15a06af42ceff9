// SPDX-License-Identifier: Apache-2.0

// Package name makes, checks and shortens the names of servers.
//
// A name is for people: one line that cannot act on a terminal, whatever the command line is. Derive steps
// over variables, code and the values of flags, so that a key or a token does not get into a list of servers.
// A name identifies nothing: two servers may share one, and callers add an id.
package name

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLen is the maximum length of a name in bytes. One that is made here has to fit a table.
const MaxLen, maxMade = 4096, 128

// Check returns an error for a text that is not a name.
func Check(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("the name is empty")
	case len(name) > MaxLen:
		return fmt.Errorf("the name has more than %d bytes", MaxLen)
	case !utf8.ValidString(name):
		return errors.New("the name is not UTF-8")
	case strings.ContainsFunc(name, acts):
		return errors.New("the name has characters that control a terminal")
	}
	return nil
}

// acts reports whether a rune ends a line, controls a terminal, or changes the direction of the text.
func acts(r rune) bool {
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Bidi_Control, r)
}

// Fit returns the name that is nearest to a text, such as the key of a server in a client's configuration, or
// "" if nothing of it can stand in a name.
func Fit(s string) string {
	s = strings.Map(func(r rune) rune {
		if acts(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	return strings.TrimSpace(strings.ToValidUTF8(s[:min(len(s), maxMade)], ""))
}

// maxDir leaves room for a prefix, an id and a suffix in the 255 bytes of a file name.
const maxDir = 48

// Dir returns a name as a part of the name of a cgroup or systemd unit. A leading '.' would hide it, and a
// leading '-' would make it an option in a pasted command.
func Dir(name string) string {
	dir := strings.TrimLeft(strings.Map(inDir, name), ".-")
	return cmp.Or(dir[:min(len(dir), maxDir)], fallback)
}

func inDir(r rune) rune {
	if r == '-' || r == '.' || r < utf8.RuneSelf && isWord(r) {
		return r
	}
	return '_'
}
