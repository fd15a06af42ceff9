// SPDX-License-Identifier: Apache-2.0

package top

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

const (
	firstRefresh = 250 * time.Millisecond // CPU% needs a second reading
	refreshEvery = 2 * time.Second
)

// Screen shows servers on a terminal. It is also the model of Bubble Tea, which calls Init, Update and View.
type Screen struct {
	servers       *selection.Selection
	view          view
	width, height int
	refreshes     int // so far
}

// Options are for New.
type Options struct {
	Servers *selection.Selection
	Note    string                    // in the last line, until the first key
	Stop    func(*fleet.Listed) error // for the key s
}

// New reads the servers once. Run closes them.
func New(o Options) (*Screen, error) {
	first, err := read(o.Servers, nil, "")
	if err != nil && len(first.readings) == 0 {
		return nil, err
	}
	const width, height = 80, 24 // until the terminal reports its size
	s := &Screen{servers: o.Servers, width: width, height: height}
	s.view = view{
		readings: first.readings, sessions: first.sessions, order: "c", note: o.Note, stop: o.Stop,
		style: style{
			users:  o.Servers.AllUsers,
			colors: os.Getenv("NO_COLOR") == "", // https://no-color.org: any text counts
		},
	}
	return s, nil
}

// Run shows the servers until a key or a signal.
func (s *Screen) Run() error {
	_, err := tea.NewProgram(s).Run()
	closeReadings(s.view.readings)
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// Messages beside keys and signals.
type (
	// refresh requests new readings, unless its number is not the last one.
	refresh struct{ number int }
	// measured contains new readings.
	measured struct {
		readings []reading
		sessions []render.Server
		err      error
	}
	// outcome is the result of an action.
	outcome string
)

// wish is an action on a server that a key requested.
type wish struct {
	verb, past string
	do         func(*fleet.Listed) error
	target     *reading
}

// Init requests the second reading.
func (s *Screen) Init() tea.Cmd { return s.refreshIn(firstRefresh) }

// refreshIn cancels the previous refresh.
func (s *Screen) refreshIn(d time.Duration) tea.Cmd {
	s.refreshes++
	number := s.refreshes
	return tea.Tick(d, func(time.Time) tea.Msg { return refresh{number} })
}

// Update handles one message. It neither reads nor waits: the command that it returns does.
func (s *Screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.resize(msg)
	case tea.PasteMsg:
		s.view.filter.update(msg)
	case tea.KeyPressMsg:
		s.view.filter.update(msg)
		return s, s.press(msg.String())
	case tea.ResumeMsg: // the readings are as old as the suspension is long
		return s, s.refreshIn(0)
	case refresh:
		if msg.number == s.refreshes {
			return s, s.measure()
		}
	case measured:
		s.replaceReadings(msg)
		return s, s.refreshIn(refreshEvery)
	case outcome:
		s.view.note = string(msg)
		return s, s.refreshIn(0)
	}
	return s, nil
}

// resize ignores a size that a terminal does not know.
func (s *Screen) resize(size tea.WindowSizeMsg) {
	if size.Width > 0 && size.Height > 0 {
		s.width = size.Width
		s.height = size.Height
	}
}

// measure returns a command that Bubble Tea runs in a goroutine.
func (s *Screen) measure() tea.Cmd {
	before := s.view.readings
	details := s.view.details
	return func() tea.Msg {
		now, err := read(s.servers, before, details)
		now.err = err
		return now
	}
}

// replaceReadings keeps the old readings if there are no new ones.
func (s *Screen) replaceReadings(m measured) {
	if m.err != nil {
		s.view.note = "cannot list all servers: " + cli.ErrorLine(m.err)
	}
	if m.err == nil || len(m.readings) > 0 {
		closeReadings(s.view.readings)
		s.view.readings = m.readings
		s.view.sessions = m.sessions
	}
}

func (s *Screen) press(key string) tea.Cmd {
	if key == "ctrl+z" {
		return s.suspend()
	}
	detailsBefore := s.view.details
	const besideRows = 3 // lines: the summary, the heads and the last line
	w, quit := s.view.press(key, max(s.height-besideRows, 1))
	opened := s.view.details != detailsBefore && s.view.details != ""
	switch {
	case quit:
		return tea.Quit
	case w != nil:
		return s.act(w)
	case opened:
		return s.refreshIn(0) // to list its processes
	}
	return nil
}

// suspend returns to the shell, if there is one.
func (s *Screen) suspend() tea.Cmd {
	if !hasShell() {
		s.view.note = "no shell could continue top: use q"
		return nil
	}
	return tea.Suspend
}

// act runs an action in a goroutine of Bubble Tea.
func (s *Screen) act(w *wish) tea.Cmd {
	server := w.target.server
	name := fmt.Sprintf("%s (%s)", render.Fit(w.target.row.Server.Name, nameMost), w.target.row.Server.ID)
	if server == nil {
		s.view.note = "wait for the previous action on " + name
		return nil
	}
	w.target.server = nil // closed below
	s.view.note = w.verb + " " + name + " …"
	return func() tea.Msg {
		defer server.Close()
		if err := w.do(server); err != nil {
			return outcome(fmt.Sprintf("cannot %s %s: %s", w.verb, name, cli.ErrorLine(err)))
		}
		return outcome(w.past + " " + name)
	}
}

// View draws the screen.
func (s *Screen) View() tea.View {
	v := tea.NewView(strings.Join(s.view.lines(s.width, s.height), "\n"))
	v.AltScreen = true
	return v
}
