// SPDX-License-Identifier: Apache-2.0

//go:build linux

package top

import (
	"fmt"
	"os"
	"os/signal"
	"time"
	"unicode"

	"charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/show"
)

// topFlags say which servers are shown, and how often they are measured.
type Options struct {
	selection.Filter
	Interval time.Duration
}

// runTop shows servers until a key or a signal ends it.
func Run(f *Options, io cli.Stdio) int {
	err := drawable()
	if err != nil {
		return io.CannotWithHint("show servers", err, "mcpscope ls")
	}
	all, err := read(&f.Filter, nil, "")
	if err != nil && len(all) == 0 {
		return io.Cannot("list servers", err)
	}
	t := &top{Options: f, view: topView{all: all, users: f.AllUsers, order: 'c'}, width: 80, height: 24}
	sig, err := t.show()
	closeReadings(t.view.all)
	switch {
	case sig != 0:
		return cli.EndBySignal(sig)
	case err != nil:
		return io.Cannot("show servers", err)
	}
	return cli.ExitOK
}

// drawable tells why there can be no full screen: it takes a terminal at both ends.
func drawable() error {
	for _, f := range []*os.File{os.Stdin, os.Stdout} {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
			return fmt.Errorf("%s is no terminal", map[*os.File]string{os.Stdin: "stdin", os.Stdout: "stdout"}[f])
		}
	}
	if term := os.Getenv("TERM"); term == "" || term == "dumb" {
		return fmt.Errorf("the terminal can't be drawn on (TERM=%s)", term)
	}
	return nil
}

// top is a view on a terminal.
type top struct {
	*Options
	view          topView
	width, height int
	looks         int         // that are under way, or due; an outcome asks for one more
	signal        unix.Signal // that ends it
}

// What top is told beside keys.
type (
	// lookNow is when servers are to be looked at again; one that is not the latest is out of date.
	lookNow struct{ look int }
	// sighting is what a look at all servers has found.
	sighting struct {
		all []reading
		err error
	}
	// outcome is what came of something that was done to a server.
	outcome string
	// ended is a signal that ends us.
	ended struct{ signal unix.Signal }
	// continued is what a shell, or somebody else, has done to us.
	continued struct{}
)

// firstWait is for a second look, without which there is no CPU% yet.
const firstWait = 250 * time.Millisecond

// show returns the signal that ends it, 0 if it was a key.
func (t *top) show() (unix.Signal, error) {
	p := tea.NewProgram(t, tea.WithoutSignalHandler())
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGCONT)
	defer signal.Stop(signals)
	go func() {
		for s := range signals {
			switch s {
			case unix.SIGCONT:
				p.Send(continued{})
			default:
				p.Send(ended{s.(unix.Signal)})
			}
		}
	}()
	_, err := p.Run()
	if err != nil && hungUp() {
		return unix.SIGHUP, nil // the signal may be under way, or was for somebody else
	}
	if t.signal == unix.SIGINT {
		t.signal = 0
	}
	return t.signal, err
}

// hungUp tells whether the terminal has gone.
func hungUp() bool {
	fds := []unix.PollFd{{Fd: 0}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

func (t *top) Init() tea.Cmd { return t.lookIn(firstWait) }

// lookIn asks for a look, and calls off the one that was due.
func (t *top) lookIn(d time.Duration) tea.Cmd {
	t.looks++
	look := t.looks
	return tea.Tick(d, func(time.Time) tea.Msg { return lookNow{look} })
}

func (t *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 {
			t.width, t.height = msg.Width, msg.Height
		}
	case tea.KeyPressMsg:
		return t, t.pressed(msg.Key())
	case lookNow:
		if msg.look == t.looks {
			return t, t.look()
		}
	case sighting:
		return t, t.take(msg)
	case outcome:
		t.view.note = string(msg)
		return t, t.lookIn(0) // what it has changed
	case ended:
		t.signal = msg.signal
		return t, tea.Quit
	case continued:
		return t, tea.ClearScreen // which draws all of it
	}
	return t, nil
}

func (t *top) look() tea.Cmd {
	before, details := t.view.all, t.view.details
	return func() tea.Msg {
		all, err := read(&t.Filter, before, details)
		return sighting{all, err}
	}
}

// take shows what was read. If nothing could be, the old is better than nothing.
func (t *top) take(s sighting) tea.Cmd {
	if s.err != nil {
		t.view.note = "cannot list all servers: " + cli.ErrorLine(s.err)
	}
	if s.err == nil || len(s.all) > 0 {
		closeReadings(t.view.all)
		t.view.all = s.all
	}
	return t.lookIn(t.Interval)
}

func (t *top) pressed(k tea.Key) tea.Cmd {
	if k.Mod == tea.ModCtrl {
		switch k.Code {
		case 'c':
			return tea.Quit
		case 'z':
			return suspend()
		case '\\':
			t.signal = unix.SIGQUIT
			return tea.Quit
		}
		return nil
	}
	if k.Mod == tea.ModAlt && k.Code < unicode.MaxRune { // an escape that was typed just before
		t.view.press(tea.KeyEscape, 1)
		k = tea.Key{Code: k.Code, Text: string(k.Code)}
	}
	was := t.view.details
	w, quit := t.view.press(keyOf(k), max(t.height-3, 1))
	switch {
	case quit:
		return tea.Quit
	case w != nil:
		return t.act(w)
	case t.view.details != was && t.view.details != "":
		return t.lookIn(0) // for its processes
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
	w.to.server = nil // it is closed by whom it is given to
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
	v := tea.NewView(t.view.frame(t.width, t.height).String())
	v.AltScreen = true
	return v
}
