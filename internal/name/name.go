// SPDX-License-Identifier: Apache-2.0

// Package name says what a server is called: by the program or package that a command line starts ([Derive]),
// whether a given name is one ([Check]), which is nearest to a text ([Fit]), and how it looks in the name of
// a directory or unit ([Dir]).
//
// A name is for people: non-empty text of one line that can't act on a terminal, whatever the command line
// is. Derive steps over variables, code and the values of flags: a key or a token must not end up in a list
// of servers. A name identifies nothing: two servers may share one, and callers add an id.
package name

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLen is how many bytes a name may have.
const MaxLen = 4096

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

// maxDerived is far below MaxLen: a derived name has to fit a table.
const maxDerived = 128

// sanitise makes a name, or "", of bytes that come from a command line.
func sanitise(s string) string {
	s = strings.Map(func(r rune) rune {
		if acts(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	if len(s) > maxDerived {
		cut := maxDerived
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = strings.TrimSpace(s[:cut])
	}
	return s
}

// Fit returns the name that is nearest to a text, such as the key of a server in a client's
// configuration, or "" if nothing of it can stand in a name.
func Fit(text string) string {
	if Check(text) == nil {
		return text
	}
	return sanitise(text)
}

// maxDir leaves room for a prefix, an id and a suffix in the 255 bytes of a
// file name, and for a readable line in systemctl.
const maxDir = 48

// Dir returns the part of a cgroup directory's or systemd unit's name that is
// made from a name: [A-Za-z0-9_.-] stay, each run of anything else becomes one
// '_'. A leading '.' would hide it, a leading '-' would make it an option in a
// pasted command.
func Dir(name string) string {
	var b strings.Builder
	replaced := false
	for i := 0; i < len(name) && b.Len() < maxDir; i++ {
		c := name[i]
		switch {
		case b.Len() == 0 && (c == '.' || c == '-'):
			continue
		case inDir(c):
			b.WriteByte(c)
		case !replaced:
			b.WriteByte('_')
		}
		replaced = !inDir(c)
	}
	if b.Len() == 0 {
		return fallback
	}
	return b.String()
}

func inDir(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '_' || c == '.' || c == '-'
}
