//go:build linux

package main

import (
	"unicode"
	"unicode/utf8"
)

// Keys that are no character have a number in Unicode's private use area.
const (
	keyUp rune = 0xE000 + iota
	keyDown
	keyHome
	keyEnd
	keyPageUp
	keyPageDown
	keyOther // that we have no use for

	keyEnter     = '\n'
	keyEscape    = '\x1b'
	keyBackspace = '\x7f'
)

// nextKey takes one key from what the terminal has sent. more says that a part of one is there,
// of which the rest may be under way.
func nextKey(sent []byte) (key rune, rest []byte, more bool) {
	switch {
	case len(sent) == 0:
		return 0, nil, false
	case sent[0] != '\x1b':
		r, n := utf8.DecodeRune(sent)
		return plainKey(r), sent[n:], !utf8.FullRune(sent)
	case len(sent) == 1:
		return keyEscape, nil, true
	case sent[1] == 'O' && len(sent) > 2:
		return sequence(sent[1:3]), sent[3:], false
	case sent[1] != '[' && sent[1] != 'O':
		return keyEscape, sent[1:], false
	}
	for i := 2; i < len(sent); i++ {
		if c := sent[i]; c >= '@' && c <= '~' { // the final byte
			return sequence(sent[1 : i+1]), sent[i+1:], false
		}
	}
	return keyOther, nil, true
}

// sequence knows what terminals send, less the escape (ECMA-48, and xterm's two modes of cursor
// keys).
func sequence(s []byte) rune {
	switch string(s) {
	case "[A", "OA":
		return keyUp
	case "[B", "OB":
		return keyDown
	case "[H", "OH", "[1~", "[7~":
		return keyHome
	case "[F", "OF", "[4~", "[8~":
		return keyEnd
	case "[5~":
		return keyPageUp
	case "[6~":
		return keyPageDown
	}
	return keyOther
}

func plainKey(r rune) rune {
	switch {
	case r == '\r':
		return keyEnter
	case r == '\b':
		return keyBackspace
	case unicode.Is(unicode.Co, r) || r == utf8.RuneError:
		return keyOther
	}
	return r
}

// press does what a key means for the view, and returns what is to be done beyond that; quit
// ends it all.
func (v *topView) press(key rune, page int) (w *wish, quit bool) {
	v.note = ""
	switch {
	case v.typing:
		v.spell(key)
	case v.asked != "":
		return v.answer(key), false
	case v.walk(key, page):
	case orderOf(key) != nil:
		v.order = key
	case key == 'q':
		return nil, true
	default:
		return v.act(key), false
	}
	return nil, false
}

// spell takes a key for the filter.
func (v *topView) spell(key rune) {
	switch {
	case key == keyEnter:
		v.typing = false
	case key == keyEscape:
		v.typing, v.filter = false, ""
	case key == keyBackspace:
		_, n := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-n]
	case unicode.IsGraphic(key):
		v.filter += string(key)
	}
}

// answer takes a key for the question whether to stop a server, which may have gone.
func (v *topView) answer(key rune) *wish {
	r := v.find(v.asked)
	v.asked = ""
	if key != 'y' && key != 'Y' || r == nil {
		v.note = "not stopped"
		return nil
	}
	return stopIt(r)
}

// walk moves the cursor.
func (v *topView) walk(key rune, page int) bool {
	by := map[rune]int{
		keyUp: -1, 'k': -1, keyDown: 1, 'j': 1, keyPageUp: -page, keyPageDown: page,
		keyHome: -len(v.all), 'g': -len(v.all), keyEnd: len(v.all), 'G': len(v.all),
	}[key]
	if by != 0 {
		v.move(by)
	}
	return by != 0
}

func (v *topView) act(key rune) *wish {
	r := v.current()
	switch {
	case key == 'r':
		v.reverse = !v.reverse
	case key == '/':
		v.typing = true
	case key == keyEscape:
		v.filter = ""
	case r == nil:
	case key == 's':
		v.cursor, v.asked = r.who(), r.who()
	case key == 'f':
		return freezeIt(r)
	}
	return nil
}
