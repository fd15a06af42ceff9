//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

const topLong = `Shows the servers that run on a terminal, again and again.

Keys:
  up, down, k, j, PgUp, PgDn, Home, End
                     choose a server
  c m a n p          sort by CPU, memory, age, name, number of processes; r
                     reverses
  /                  show only those with a text in id, name, client, state or
                     backend; Escape shows all again
  f                  freeze the chosen server, or thaw it
  s, then y          stop it, as mcpscope stop does
  q, ^C              end

CPU% is of one processor, since the look before.`

type topFlags struct {
	filter
	interval time.Duration // 0: as it costs
}

// Of the interval that nobody asked for.
const (
	intervalLeast, intervalMost = 2 * time.Second, 10 * time.Second

	// costFactor is how much longer we wait than we work: less than 1 %, so that what the start has
	// cost is made up for.
	costFactor = 120
)

func topCommand(io cli.Stdio) *cobra.Command {
	var f topFlags
	c := command(spec{
		use: "top [flags]", short: "watch the servers that run",
		examples: `  mcpscope top
  sudo mcpscope top --all-users
`,
		long: topLong,
	}, func(operands []string) int { return f.run(io) })
	f.filter.set(c)
	c.Flags().Func("interval", "from one look to the next, at least 100ms (default 2s, or longer where that would use more than 1 % of a processor, 10s at most): `D`", func(s string) (err error) {
		if f.interval, err = time.ParseDuration(s); err == nil && f.interval < 100*time.Millisecond {
			err = errors.New("it is less than 100ms")
		}
		return err
	})
	return c
}

func (f *topFlags) run(io cli.Stdio) int {
	s, err := newScreen()
	if err != nil {
		status := io.Cannot("show servers", err)
		fmt.Fprint(io.Err, "mcpscope: hint: mcpscope ls\n")
		return status
	}
	all, err := f.read(nil)
	if err != nil && len(all) == 0 {
		return io.Cannot("list servers", err)
	}
	t := &top{topFlags: *f, screen: s, view: topView{all: all, users: f.allUsers, order: 'c'}}
	sig, err := t.run()
	if err != nil {
		return io.Cannot("show servers", err)
	}
	if sig != 0 {
		return cli.EndBySignal(sig)
	}
	return cli.ExitOK
}

// top is a view on a screen. All of it belongs to run; others send it what they have.
type top struct {
	topFlags
	screen   *screen
	view     topView
	keys     chan rune
	again    chan struct{} // the terminal is ours again: see screen.keys
	read     chan sighting
	outcomes chan string // of what was done to a server
	next     *time.Timer
	worked   time.Duration // processor time that we had used when we looked last
}

// sighting is what a look at all servers has found.
type sighting struct {
	all []reading
	err error
}

// firstWait is for a second look, without which there is no CPU% yet.
const firstWait = 250 * time.Millisecond

// run returns the signal that ends it, 0 if it was a key.
func (t *top) run() (unix.Signal, error) {
	t.keys, t.again, t.read, t.outcomes = make(chan rune), make(chan struct{}, 1), make(chan sighting), make(chan string)
	t.next = time.NewTimer(firstWait)
	t.worked = processorTime()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH)
	defer t.screen.leave()
	if err := t.screen.enter(); err != nil {
		return 0, err
	}
	t.apart(func() { t.screen.keys(t.keys, t.again) })
	for changed := true; ; {
		width, height := t.screen.size()
		if changed {
			t.screen.draw(t.view.frame(width, height))
		}
		changed = true
		select {
		case key, more := <-t.keys:
			if !more {
				return unix.SIGHUP, nil // the signal may be under way, or was for somebody else
			}
			if t.pressed(key, height) {
				return 0, nil
			}
		case s := <-signals:
			switch sig := s.(unix.Signal); sig {
			case unix.SIGINT:
				return 0, nil
			case unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
				return sig, nil
			default:
				t.signalled(sig)
			}
		case r := <-t.read:
			t.take(r)
		case note := <-t.outcomes:
			t.view.note = note
			t.next.Reset(0) // what it has changed
		case <-t.next.C:
			changed = t.resume()
			before := t.view.all
			t.apart(func() {
				all, err := t.filter.read(before)
				t.read <- sighting{all, err}
			})
		}
	}
}

// signalled is about the terminal.
func (t *top) signalled(sig unix.Signal) {
	switch sig {
	case unix.SIGTSTP:
		t.screen.leave()
		scope.StopBy(sig)
		t.resume()
	case unix.SIGCONT: // also after SIGSTOP, when a shell has changed the terminal
		t.screen.entered = false
		t.resume()
	case unix.SIGWINCH:
		t.screen.drawn = "" // the terminal has its own way to fit what was there
	}
}

// resume takes the terminal if it is ours again, which no signal tells of where the shell had
// let us go on in the background.
func (t *top) resume() bool {
	if t.screen.entered {
		return false
	}
	if err := t.screen.enter(); err != nil || !t.screen.entered {
		return false
	}
	select {
	case t.again <- struct{}{}:
	default: // it knows
	}
	return true
}

// take shows what was read. If nothing could be, the old is better than nothing.
func (t *top) take(r sighting) {
	if r.err != nil {
		t.view.note = "cannot list all servers: " + cli.ErrorLine(r.err)
	}
	if r.err == nil || len(r.all) > 0 {
		closeReadings(t.view.all)
		t.view.all = r.all
	}
	t.next.Reset(t.wait())
}

// wait is how long to wait for the next look. Many servers, or a busy machine, are no reason to
// make it busier.
func (t *top) wait() time.Duration {
	worked := processorTime() - t.worked
	t.worked += worked
	if t.interval > 0 {
		return t.interval
	}
	return min(max(costFactor*worked, intervalLeast), intervalMost)
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0 // it can't fail with these arguments
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func (t *top) pressed(key rune, height int) (quit bool) {
	w, quit := t.view.press(key, max(height-3, 1))
	if w == nil {
		return quit
	}
	s, what := w.to.server, fmt.Sprintf("%s (%s)", fit(w.to.Name, 32), w.to.ID)
	if s == nil {
		t.view.note = "something is being done to " + what
		return false
	}
	w.to.server = nil // it is closed by whom it is given to
	t.view.note = w.verb + " " + what + " …"
	t.apart(func() {
		defer s.Close()
		if err := w.do(s); err != nil {
			t.outcomes <- fmt.Sprintf("cannot %s %s: %s", w.verb, what, cli.ErrorLine(err))
			return
		}
		t.outcomes <- w.past + " " + what
	})
	return false
}

// apart does something beside run. The terminal is given back whoever panics.
func (t *top) apart(do func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				t.screen.leave()
				panic(p)
			}
		}()
		do()
	}()
}
