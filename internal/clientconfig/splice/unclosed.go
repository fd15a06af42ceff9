// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"fmt"
)

// atEnd improves an error about a file that ends too early: a parser notices that at the end, and a person
// has to repair what was opened and never closed. Other errors stay.
func (e *SyntaxError) atEnd(data []byte) {
	if e.Line == 0 {
		return
	}
	offset := offsetOf(data, e.Line, e.Column)
	text := bytes.TrimRight(data, " \t\r\n")
	if offset < len(text) {
		return
	}
	s := unclosedScanner{data: data}
	what := ""
	switch e.format {
	case JSON:
		what = s.scan(s.endInJSON)
	case TOML:
		what = s.scan(s.endInTOML)
	}
	position := len(text)
	if len(s.open) > 0 {
		position = s.open[len(s.open)-1]
		e.Text += fmt.Sprintf(": this %s is never closed", what)
	}
	e.Line = 1 + bytes.Count(data[:position], []byte("\n"))
	e.Column = position - bytes.LastIndexByte(data[:position], '\n')
}

// offsetOf returns the offset of a line and column, which begin with 1.
func offsetOf(data []byte, line, column int) int {
	offset := 0
	for range line - 1 {
		end := bytes.IndexByte(data[offset:], '\n')
		if end < 0 {
			return len(data)
		}
		offset += end + 1
	}
	return min(offset+column-1, len(data))
}

// unclosedScanner finds what is open at the end of a file.
type unclosedScanner struct {
	data []byte
	most int   // how many may be open: the scan ends above that; 0 is no limit
	open []int // where each brace or bracket is, or a string at the end; the innermost is the last
}

// scan returns what the innermost open part is. endOf returns the last byte of the part that begins at a
// byte, or -1 for a string that is never closed.
func (s *unclosedScanner) scan(endOf func(start int) int) (what string) {
	for i := 0; i < len(s.data); i++ {
		end := endOf(i)
		if end < 0 {
			s.open = append(s.open, i)
			return "string"
		}
		if s.most > 0 && len(s.open) > s.most {
			break
		}
		i = end
	}
	return s.innermost()
}

func (s *unclosedScanner) endInJSON(start int) int {
	rest := s.data[start:]
	switch {
	case rest[0] == '"':
		return s.stringEnd(start, `"`, true)
	case bytes.HasPrefix(rest, []byte("//")):
		return s.endOfText(start, "\n")
	case bytes.HasPrefix(rest, []byte("/*")):
		return s.endOfText(start+2, "*/")
	}
	s.bracket(start)
	return start
}

func (s *unclosedScanner) endInTOML(start int) int {
	rest := s.data[start:]
	switch {
	case bytes.HasPrefix(rest, []byte(`"""`)):
		return s.stringEnd(start, `"""`, true)
	case bytes.HasPrefix(rest, []byte("'''")):
		return s.stringEnd(start, "'''", false)
	case rest[0] == '"':
		return s.stringEnd(start, `"`, true)
	case rest[0] == '\'':
		return s.stringEnd(start, "'", false)
	case rest[0] == '#':
		return s.endOfText(start, "\n")
	}
	s.bracket(start)
	return start
}

// stringEnd returns the last byte of the string that begins at a byte, or -1 if it is never closed.
func (s *unclosedScanner) stringEnd(start int, quote string, hasEscapes bool) int {
	for i := start + len(quote); i < len(s.data); i++ {
		switch {
		case hasEscapes && s.data[i] == '\\':
			i++
		case bytes.HasPrefix(s.data[i:], []byte(quote)):
			return i + len(quote) - 1
		}
	}
	return -1
}

// endOfText returns the last byte of a comment, which can be the last one of the file.
func (s *unclosedScanner) endOfText(start int, end string) int {
	length := bytes.Index(s.data[start:], []byte(end))
	if length < 0 {
		return len(s.data)
	}
	return start + length + len(end) - 1
}

// bracket opens or closes one, if there is one.
func (s *unclosedScanner) bracket(i int) {
	switch s.data[i] {
	case '{', '[':
		s.open = append(s.open, i)
	case '}', ']':
		if len(s.open) > 0 {
			s.open = s.open[:len(s.open)-1]
		}
	}
}

// innermost names the brace or bracket that is open.
func (s *unclosedScanner) innermost() string {
	if len(s.open) == 0 {
		return ""
	}
	return string(s.data[s.open[len(s.open)-1]])
}
