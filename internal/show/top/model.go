// SPDX-License-Identifier: Apache-2.0

package top

import (
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/show"
)

// Run shows servers until a key or a signal, and returns the exit status. note is shown until the first key.
func Run(f *selection.Filter, note string, io cli.Stdio) int {
	if !io.CanAsk() {
		err := errors.New("stdin or stdout is no terminal")
		return io.CannotWithHint("show servers", err, "mcpscope ls")
	}
	all, err := read(f, nil, "")
	if err != nil && len(all) == 0 {
		return io.Cannot("list servers", err)
	}
	t := &top{servers: f, width: 80, height: 24}
	t.view = view{all: all, users: f.AllUsers, order: "c", note: note}
	_, err = tea.NewProgram(t).Run()
	closeReadings(t.view.all)
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return io.Cannot("show servers", err)
	}
	return cli.ExitOK
}

// top is a view on a terminal.
type top struct {
	servers       *selection.Filter
	view          view
	width, height int
	refreshes     int // so far
}

// Messages beside keys and signals.
type (
	// refresh requests new readings, unless its number is not the last one.
	refresh struct{ number int }
	// measured contains new readings.
	measured struct {
		all []reading
		err error
	}
	// outcome is the result of an action.
	outcome string
)

// wish is an action on a server that a key requested.
type wish struct {
	verb, past string
	do         func(*fleet.Listed) error
	to         *reading
}

func stop(s *fleet.Listed) error {
	s.LogStop(selection.OwnCommand())
	return s.Stop(fleet.AsConfigured)
}

// Init refreshes soon because CPU% needs a second reading.
func (t *top) Init() tea.Cmd { return t.refreshIn(250 * time.Millisecond) }

// refreshIn cancels the previous refresh.
func (t *top) refreshIn(d time.Duration) tea.Cmd {
	t.refreshes++
	number := t.refreshes
	return tea.Tick(d, func(time.Time) tea.Msg { return refresh{number} })
}

func (t *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 {
			t.width, t.height = msg.Width, msg.Height
		}
	case tea.KeyPressMsg:
		return t, t.pressed(msg.String())
	case refresh:
		if msg.number == t.refreshes {
			before, details := t.view.all, t.view.details
			return t, func() tea.Msg {
				all, err := read(t.servers, before, details)
				return measured{all, err}
			}
		}
	case measured:
		if msg.err != nil {
			t.view.note = "cannot list all servers: " + cli.ErrorLine(msg.err)
		}
		if msg.err == nil || len(msg.all) > 0 { // the old readings are better than none
			closeReadings(t.view.all)
			t.view.all = msg.all
		}
		return t, t.refreshIn(2 * time.Second)
	case outcome:
		t.view.note = string(msg)
		return t, t.refreshIn(0)
	}
	return t, nil
}

func (t *top) pressed(key string) tea.Cmd {
	was := t.view.details
	w, quit := t.view.press(key, max(t.height-3, 1))
	switch {
	case quit:
		return tea.Quit
	case w != nil:
		return t.act(w)
	case t.view.details != was && t.view.details != "":
		return t.refreshIn(0) // to list its processes
	}
	return nil
}

// act runs an action in a goroutine of Bubble Tea.
func (t *top) act(w *wish) tea.Cmd {
	s, name := w.to.server, fmt.Sprintf("%s (%s)", show.Fit(w.to.Name, 32), w.to.ID)
	if s == nil {
		t.view.note = "wait for the previous action on " + name
		return nil
	}
	w.to.server = nil // closed below
	t.view.note = w.verb + " " + name + " …"
	return func() tea.Msg {
		defer s.Close()
		if err := w.do(s); err != nil {
			return outcome(fmt.Sprintf("cannot %s %s: %s", w.verb, name, cli.ErrorLine(err)))
		}
		return outcome(w.past + " " + name)
	}
}

func (t *top) View() tea.View {
	v := tea.NewView(strings.Join(t.view.lines(t.width, t.height), "\n"))
	v.AltScreen = true
	return v
}
