// SPDX-License-Identifier: Apache-2.0

package top

import (
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// filter is the text that the servers of the list contain.
type filter struct {
	text  string
	input textinput.Model // focused while a person types the text
}

func (f *filter) isTyped() bool { return f.input.Focused() }

// edit begins with the text that is there.
func (f *filter) edit() {
	f.input = textinput.New()
	f.input.Prompt = "/"
	f.input.SetStyles(textinput.Styles{})              // no color, and a cursor that does not blink
	f.input.KeyMap.DeleteWordForward.SetEnabled(false) // bubbles 2.2.1 panics at the last character
	f.input.SetValue(f.text)
	f.input.Focus()
}

// update takes a key or a pasted text, while the text is typed.
func (f *filter) update(msg tea.Msg) {
	if !f.isTyped() {
		return
	}
	// Without a cursor that blinks, only ^V returns a command. It would run a program that reads the
	// clipboard. A text that the terminal pastes is a message.
	f.input, _ = f.input.Update(msg)
	f.input.SetValue(cli.OneLine(f.input.Value()))
	f.text = f.input.Value()
}

// press ends the typing. All other keys are for update.
func (f *filter) press(pressed string) {
	switch pressed {
	case "enter":
		f.input.Blur()
	case "esc":
		f.input.Blur()
		f.text = ""
	}
}

// line shows the text while it is typed.
func (f *filter) line(width int) string {
	const prompt, cursor = 1, 1 // cells; the cursor may be behind the text
	f.input.SetWidth(width - prompt - cursor)
	f.input.SetCursor(f.input.Position()) // scrolls to it
	return f.input.View()
}
