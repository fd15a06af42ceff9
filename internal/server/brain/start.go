// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// TellStart is for everything that waits until the server runs.
func (b *Brain) TellStart() {
	b.begun = true
	b.Group.Adopt()
	b.beginRest()
	if systemd.JournalExists() {
		report.LogStart(b.Config)
	}
	b.finish = sweep.BeginSweep(b.Group.Beside())
	if b.Config.Replace {
		b.Beside.Go(b.replaceOlder)
	}
}

// replaceOlder stops older servers of the same client process that are the same server: a client that
// reconnects without closing would collect them. Each is visible before it looks. So of two that start at the
// same time at least one sees the other, and the older stops.
func (b *Brain) replaceOlder() {
	own := b.Config
	all, _ := fleet.List(os.Getuid()) // an invisible server stays
	for _, l := range all {
		defer l.Close()
		running := l.State != fleet.Terminating && l.State != fleet.Orphaned
		ofSameClient := l.Client.PID == own.Client.PID && l.Client.Start == own.Client.Start
		rival := ofSameClient && l.Role() == own.Role()
		if !running || !rival || l.ID == own.Group.ID {
			continue
		}
		switch time.Unix(0, own.Started).Compare(l.Started) {
		case 1:
			l.LogStop("a newer one, " + own.Group.ID + " (--replace)")
			_ = l.RequestStop() // without a wait for its end
		case -1:
			if own.Taken {
				b.Group.AskToStop()
			} else {
				_ = unix.PidfdSendSignal(b.Guard.PIDFD, protocol.StopSignal, nil, 0) // gone is as good
			}
		}
	}
}

// TakeOver is the whole life of a later brain. memory and sock are the descriptors of the page and of the
// guard's socket. No process reads the exit status.
func TakeOver(memory, sock int) int {
	_ = os.WriteFile("/proc/self/comm", []byte("mcpscope"), 0) // for people: it was executed by a descriptor
	b, err := resume(memory, sock)
	if err != nil {
		return 125 // the guard ends everything by itself
	}
	b.report(lifecycle.LauncherDied)
	b.Live()
	return 0
}

func resume(memory, sock int) (*Brain, error) {
	p, err := page.Open(memory)
	if err != nil {
		return nil, err
	}
	env, err := proc.Environ() // which is not ours to read any more when tracers are kept off
	if err != nil {
		return nil, err
	}
	g, err := page.Attach(p, sock)
	if err != nil {
		return nil, err
	}
	l, err := loop.New()
	if err != nil {
		return nil, err
	}
	b, err := Resume(p, g, env, l)
	if err != nil {
		return nil, err
	}
	b.finish = sweep.BeginSweep(b.Group.Beside())
	// Caught, not ignored: that would be inherited by a container engine.
	return b, b.Loop.Catch(linux.Ending...)
}

// Resume continues in the state and with the deadline of the page. It sweeps nothing: a watcher resumes many
// servers, and looks after none of the others before it has them all.
func Resume(p *page.Page, g *page.Guard, env []string, l *loop.Loop) (*Brain, error) {
	b, err := Reopen(p, g, env, l)
	if err != nil {
		return nil, err
	}
	if err := b.Begin(); err != nil {
		return nil, err
	}
	cause, sig := protocol.CauseOf(p.Cause&0xffff), unix.Signal(p.Cause>>16)
	b.life.Resume(lifecycle.State(p.Phase), fromMonotonic(p.Until), cause, sig)
	return b, nil
}

// Reopen is Resume for a server whose lifecycle has not begun yet.
func Reopen(p *page.Page, g *page.Guard, env []string, l *loop.Loop) (*Brain, error) {
	c := &protocol.Config{}
	text, err := p.Config()
	if err == nil {
		err = protocol.Decode(text, c)
	}
	if err != nil {
		return nil, err
	}
	b := New(c, l)
	b.Page, b.Guard, b.Env, b.begun = p, g, env, true
	b.exited, b.stops, b.requests = p.Exited, p.Stops, p.Requests
	if c.Group.Backend == protocol.Tree {
		b.Group = group.NewTree(c.Group.ID, b.Guarded())
	} else if b.Group, err = group.Reopen(int(p.Payload), c.Group); err != nil {
		return nil, err
	}
	return b, nil
}

// GoOn is for a server whose client lives: it watches the client's side, or goes on with a stop.
func (b *Brain) GoOn(in *client.Side) error {
	if b.Client = in; b.life.State > lifecycle.Idle {
		b.report(lifecycle.LauncherDied)
		return nil
	}
	if b.beginRest(); b.rest != nil {
		b.rest.Thaw() // the brain before may have died while it froze them
	}
	b.report(lifecycle.Woken)
	if in.Main < 0 { // it has ended without a watcher
		b.Loop.Report(loop.TokenMain)
	}
	return in.Add(b.Loop)
}
