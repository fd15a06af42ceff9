// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// TakeOver is the whole life of a later brain. memory and sock are the descriptors of the page and of the
// guard's socket. No process reads the exit status.
func TakeOver(memory, sock int) int {
	_ = os.WriteFile("/proc/self/comm", []byte("mcpscope"), 0) // for people: it was executed by a descriptor
	b, err := resume(memory, sock)
	if err != nil {
		return 125 // the guard ends everything by itself
	}
	if b.client == nil {
		b.report(lifecycle.LauncherDied)
	} else {
		b.report(lifecycle.Woken)
	}
	b.live()
	return 0
}

// resume continues in the state and with the deadline of the page.
func resume(memory, sock int) (*brain, error) {
	p, err := page.Open(memory)
	if err != nil {
		return nil, err
	}
	env, err := protocol.ServerEnv() // which is not ours to read any more when tracers are kept off
	if err != nil {
		return nil, err
	}
	g, err := page.Attach(p, sock)
	if err != nil {
		return nil, err
	}
	text, err := p.Config()
	if err != nil {
		return nil, err
	}
	c := &protocol.Config{}
	if err := protocol.Decode(text, c); err != nil {
		return nil, err
	}
	b, err := newBrain(c)
	if err != nil {
		return nil, err
	}
	b.page, b.guard, b.env, b.notes, b.begun = p, g, env, c.Notes, true
	b.later = true
	b.exited, b.stops, b.requests = p.Exited, p.Stops, p.Requests
	if c.Group.Backend == protocol.Tree {
		b.group = backend.NewTree(c.Group.ID, b.guarded())
	} else if b.group, err = group.Reopen(int(p.Payload), c.Group); err != nil {
		return nil, err
	}
	// Caught, not ignored: that would be inherited by a container engine.
	if err := b.loop.Catch(unix.SIGCHLD, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT); err != nil {
		return nil, err
	}
	if err := b.begin(); err != nil {
		return nil, err
	}
	cause, sig := protocol.CauseOf(p.Cause&0xffff), unix.Signal(p.Cause>>16)
	b.life.Resume(lifecycle.State(p.Phase), fromMonotonic(p.Until), cause, sig)
	b.finish = sweep.BeginSweep(b.group.Beside())
	if c.Taken && b.life.State <= lifecycle.Idle {
		err = b.goOn()
	}
	return b, err
}

// goOn watches a server whose client lives, as the brain before did.
func (b *brain) goOn() error {
	p, c := b.page, b.config
	room := client.WatchFromFD(int(p.Keep[keepRoom]))
	b.client = &client.Side{
		Stdin: client.WatchFromFD(int(p.Stdin)), Input: client.WatchFromFD(int(p.Keep[keepInput])),
		Stdout: client.WatchFromFD(int(p.Stdout)), Room: [2]*client.Watch{room},
		File: c.Stdin, Conveyed: c.Conveyed, Socket: c.Socket, Where: c.Where,
		Tag: group.TagOf(c.Group.ID), PIDFD: int(p.Client), Main: int(p.Keep[keepMain]), Sure: true,
	}
	b.beginRest()
	return b.watchClient()
}
