// SPDX-License-Identifier: Apache-2.0

//go:build linux

package top

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/show"
)

// interval is from one refresh to the next.
const interval = 2 * time.Second

// Run shows servers until a key or a signal ends it, and returns the exit status.
func Run(f *selection.Filter, io cli.Stdio) int {
	if err := drawable(); err != nil {
		return io.CannotWithHint("show servers", err, "mcpscope ls")
	}
	all, err := read(f, nil, "")
	if err != nil && len(all) == 0 {
		return io.Cannot("list servers", err)
	}
	t := &top{servers: f, view: view{all: all, users: f.AllUsers, order: 'c'}, width: 80, height: 24}
	p := tea.NewProgram(t, tea.WithoutSignalHandler())
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGCONT)
	defer signal.Stop(signals)
	go func() {
		for s := range signals {
			p.Send(s)
		}
	}()
	_, err = p.Run()
	closeReadings(t.view.all)
	switch {
	case err != nil && hungUp(): // the signal may be under way, or was for another process
		return cli.EndBySignal(unix.SIGHUP)
	case t.signal != 0 && t.signal != unix.SIGINT:
		return cli.EndBySignal(t.signal)
	case err != nil:
		return io.Cannot("show servers", err)
	}
	return cli.ExitOK
}

// drawable is why there can be no full screen.
func drawable() error {
	for _, f := range []*os.File{os.Stdin, os.Stdout} {
		if !cli.OnTerminal(f) {
			return fmt.Errorf("%s is no terminal", strings.TrimPrefix(f.Name(), "/dev/"))
		}
	}
	if term := os.Getenv("TERM"); term == "" || term == "dumb" {
		return fmt.Errorf("the terminal can't be drawn on (TERM=%s)", term)
	}
	return nil
}

// hungUp reports whether the terminal has hung up.
func hungUp() bool {
	fds := []unix.PollFd{{Fd: 0}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// top is a view on a terminal.
type top struct {
	servers       *selection.Filter
	view          view
	width, height int
	refreshes     int         // how many were asked for
	signal        unix.Signal // that ends it
}

// Messages beside keys and signals.
type (
	// refresh asks for new readings, unless another one was asked for since.
	refresh struct{ number int }
	// measured are the readings that were taken.
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
	s.TellStop(selection.OwnCommand())
	return s.Stop(fleet.AsConfigured)
}

// firstWait is for the second reading, without which there is no CPU% yet.
const firstWait = 250 * time.Millisecond

func (t *top) Init() tea.Cmd { return t.refreshIn(firstWait) }

// refreshIn calls off the refresh that was due.
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
		return t, t.pressed(msg.Key())
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
		return t, t.refreshIn(interval)
	case outcome:
		t.view.note = string(msg)
		return t, t.refreshIn(0) // what it has changed
	case unix.Signal:
		if msg == unix.SIGCONT {
			return t, tea.ClearScreen // and draw again
		}
		t.signal = msg
		return t, tea.Quit
	}
	return t, nil
}

func (t *top) pressed(k tea.Key) tea.Cmd {
	switch {
	case k.Mod == tea.ModCtrl && k.Code == 'c':
		return tea.Quit
	case k.Mod == tea.ModCtrl && k.Code == 'z':
		return suspend()
	case k.Mod == tea.ModCtrl && k.Code == '\\':
		t.signal = unix.SIGQUIT
		return tea.Quit
	case k.Mod == tea.ModAlt && k.Code < unicode.MaxRune: // an escape that was typed just before
		t.view.press(tea.KeyEscape, 1)
		k = tea.Key{Code: k.Code, Text: string(k.Code)}
	}
	key := k.Code
	if r, n := utf8.DecodeRuneInString(k.Text); n > 0 && n == len(k.Text) {
		key = r
	}
	if k.Mod&^tea.ModShift != 0 {
		return nil
	}
	was := t.view.details
	w, quit := t.view.press(key, max(t.height-3, 1))
	switch {
	case quit:
		return tea.Quit
	case w != nil:
		return t.act(w)
	case t.view.details != was && t.view.details != "":
		return t.refreshIn(0) // for its processes
	}
	return nil
}

// act does something to a server, beside what is shown.
func (t *top) act(w *wish) tea.Cmd {
	s, what := w.to.server, fmt.Sprintf("%s (%s)", show.Fit(w.to.Name, 32), w.to.ID)
	if s == nil {
		t.view.note = "something is being done to " + what
		return nil
	}
	w.to.server = nil // closed below
	t.view.note = w.verb + " " + what + " …"
	return func() tea.Msg {
		defer s.Close()
		if err := w.do(s); err != nil {
			return outcome(fmt.Sprintf("cannot %s %s: %s", w.verb, what, cli.ErrorLine(err)))
		}
		return outcome(w.past + " " + what)
	}
}

func (t *top) View() tea.View {
	v := tea.NewView(strings.Join(t.view.lines(t.width, t.height), "\n"))
	v.AltScreen = true
	return v
}
