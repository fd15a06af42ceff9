// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strings"
	"unicode/utf8"
)

// assignment is KEY=VALUE in a section of a unit file.
type assignment struct{ Section, Key, Value string }

// whitespace and the first characters of comments, as in systemd's conf-parser.
const (
	whitespace = " \t\n\r"
	comments   = "#;"
)

// parseUnit divides a unit file as systemd does (systemd.syntax(7), config_parse in conf-parser.c). Values
// stay as they are written, apart from the blank that replaces the backslash of a continued line.
//
// The parser in go-systemd differs from that: it takes a comment in a continued value for a part of the
// value, continues a comment that ends in a backslash, and refuses a line of 2,048 bytes.
func parseUnit(text string) []assignment {
	var unit parsedUnit
	pending := ""
	for _, line := range logicalLines(strings.TrimPrefix(text, "\ufeff")) {
		first := strings.TrimLeft(line, whitespace)
		if first != "" && strings.Contains(comments, first[:1]) { // also between continued lines
			continue
		}
		line = pending + line
		pending = ""
		if isContinued(line) {
			pending = line[:len(line)-1] + " "
			continue
		}
		unit.addLine(line)
	}
	unit.addLine(pending) // the text ends in a continued line
	return unit.assignments
}

// parsedUnit is a unit file up to a line.
type parsedUnit struct {
	section     string // of the next line
	assignments []assignment
}

// addLine adds the assignment of a line, or begins a section.
func (u *parsedUnit) addLine(line string) {
	line = strings.Trim(line, whitespace)
	if !utf8.ValidString(line) { // systemd ignores it
		return
	}
	if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
		u.section = line[1 : len(line)-1]
		return
	}
	key, value, found := strings.Cut(line, "=")
	if !found {
		return
	}
	u.assignments = append(u.assignments, assignment{
		Section: u.section,
		Key:     strings.Trim(key, whitespace),
		Value:   strings.Trim(value, whitespace),
	})
}

// isContinued reports whether a line ends in a backslash that no other backslash escapes.
func isContinued(line string) bool {
	escaped := false
	for i := range len(line) {
		escaped = !escaped && line[i] == '\\'
	}
	return escaped
}

// logicalLines divides a text at newlines, carriage returns and zeros. Different ones in a row end one line,
// as in read_line of systemd.
func logicalLines(text string) (lines []string) {
	const ends = "\n\r\x00"
	for text != "" {
		length := strings.IndexAny(text, ends)
		if length < 0 {
			return append(lines, text)
		}
		lines = append(lines, text[:length])
		end := length
		for end < len(text) {
			c := text[end : end+1]
			if !strings.Contains(ends, c) || strings.Contains(text[length:end], c) {
				break
			}
			end++
		}
		text = text[end:]
	}
	return lines
}

// withSingleBlanks replaces each run of whitespace between the words of a command by one blank. A continued
// line begins with such a run. Quoted and escaped whitespace is part of a word, and stays
// (systemd.syntax(7)).
func withSingleBlanks(command string) string {
	var line strings.Builder
	quote := byte(0)
	escaped := false
	pending := false // whitespace that is not written yet
	for i := range len(command) {
		c := command[i]
		isBlank := quote == 0 && !escaped && strings.IndexByte(whitespace, c) >= 0
		if isBlank {
			pending = true
			continue
		}
		if pending {
			line.WriteByte(' ')
			pending = false
		}
		switch {
		case escaped || c == '\\':
			escaped = !escaped
		case quote == c:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		}
		line.WriteByte(c)
	}
	return line.String()
}
