// SPDX-License-Identifier: Apache-2.0

//go:build linux

package top

import (
	"unicode"
	"unicode/utf8"

	"charm.land/bubbletea/v2"
)

// keyOther is a key that we have no use for.
const keyOther = tea.KeyExtended

// keyOf is a key as press takes it.
func keyOf(k tea.Key) rune {
	switch k.Code {
	case tea.KeyUp, tea.KeyDown, tea.KeyHome, tea.KeyEnd, tea.KeyPgUp, tea.KeyPgDown, tea.KeyEnter, tea.KeyEscape, tea.KeyBackspace:
		return k.Code
	}
	if r, n := utf8.DecodeRuneInString(k.Text); n == len(k.Text) && n > 0 && k.Mod&^tea.ModShift == 0 {
		return r
	}
	return keyOther
}

// press does what a key means for the view, and returns what is to be done beyond that; quit
// ends it all.
func (v *topView) press(key rune, page int) (w *wish, quit bool) {
	v.note = ""
	switch {
	case v.help:
		v.help = false
		return nil, key == 'q'
	case v.typing:
		v.spell(key)
	case v.asked != "":
		return v.answer(key), false
	case v.leave(key):
	case v.walk(key, page):
	case orders[key] != nil:
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
	case key == tea.KeyEnter:
		v.typing = false
	case key == tea.KeyEscape:
		v.typing, v.filter = false, ""
	case key == tea.KeyBackspace:
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

// leave goes back from the details of a server.
func (v *topView) leave(key rune) bool {
	back := v.details != "" && (key == tea.KeyEscape || key == tea.KeyEnter || key == tea.KeyBackspace)
	if back {
		v.details = ""
	}
	return back
}

// walk moves the cursor, or what is shown of details.
func (v *topView) walk(key rune, page int) bool {
	by := map[rune]int{
		tea.KeyUp: -1, 'k': -1, tea.KeyDown: 1, 'j': 1, tea.KeyPgUp: -page, tea.KeyPgDown: page,
		tea.KeyHome: -len(v.all), 'g': -len(v.all), tea.KeyEnd: len(v.all), 'G': len(v.all),
	}[key]
	switch {
	case by == 0:
		return false
	case v.details != "":
		v.scroll = max(v.scroll+by, 0)
	default:
		v.move(by)
	}
	return true
}

func (v *topView) act(key rune) *wish {
	r := v.current()
	switch {
	case key == 'r':
		v.reverse = !v.reverse
	case key == '?':
		v.help = true
	case key == '/' && v.details == "":
		v.typing = true
	case key == tea.KeyEscape:
		v.filter = ""
	case r == nil:
	case key == tea.KeyEnter:
		v.cursor, v.details, v.scroll = r.who(), r.who(), 0
	case key == 's':
		v.cursor, v.asked = r.who(), r.who()
	case key == 'f':
		return freezeIt(r)
	}
	return nil
}
