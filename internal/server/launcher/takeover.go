// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/spawn"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// TakeOver is the whole life of a later brain. memory and sock are the descriptors of the page and of the
// guard's socket. The first brain of a taken server has no guard yet: its sock is 0, and memory has the
// configuration alone. No process reads the exit status.
func TakeOver(memory, sock int) int {
	_ = os.WriteFile("/proc/self/comm", []byte("mcpscope"), 0) // for people: it was executed by a descriptor
	if sock == 0 {
		return guide(memory)
	}
	b, err := resume(memory, sock)
	if err != nil {
		return 125 // the guard ends everything by itself
	}
	b.report(lifecycle.LauncherDied)
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
	return b, nil
}

// guide is the life of a taken server's first brain.
func guide(memory int) int {
	b, err := watchTaken(memory)
	if err != nil {
		return 125 // the watcher sees the end of the pipe
	}
	if _, err := unix.Write(b.config.Alive, []byte{1}); err != nil {
		b.report(lifecycle.GuardDied) // the watcher is dead: end it all at once
	}
	b.live()
	return 0
}

// watchTaken starts the guard of a server that runs already.
func watchTaken(memory int) (*brain, error) {
	text, err := spawn.ReadMemoryFile(memory)
	if err != nil {
		return nil, err
	}
	c := &protocol.Config{}
	if err := protocol.Decode(text, c); err != nil {
		return nil, err
	}
	for _, fd := range c.Inherited() {
		unix.CloseOnExec(fd)
	}
	env, err := protocol.ServerEnv()
	if err != nil {
		return nil, err
	}
	b, err := newBrain(c)
	if err != nil {
		return nil, err
	}
	b.client = &client.Side{
		Stdin: client.WatchFromFD(c.Stdin), Input: client.WatchFromFD(c.Input),
		Stdout: client.WatchFromFD(c.Stdout), Room: [2]*client.Watch{client.WatchFromFD(c.Room)},
		File: c.StdinFile, Conveyed: c.Conveyed, Socket: c.Socket, Where: c.Where,
		Tag: group.TagOf(c.Group.ID), PIDFD: c.ClientPIDFD, Main: c.Main, Sure: true,
	}
	if err := b.open("/proc/self/exe"); err != nil {
		return nil, err
	}
	g, err := group.Reopen(c.Payload, c.Group)
	if err != nil {
		return nil, err
	}
	leaf, err := g.OwnLeaf()
	if err != nil {
		return nil, err
	}
	b.group, b.notes, b.stderr = g, c.Notes, c.Stderr
	b.page.Leaf, b.page.Parent = int32(leaf.FD()), int32(g.Parent.FD())
	err = b.page.SetDirectories(g.Dir+"/"+protocol.PayloadName, g.Dir)
	if err == nil {
		err = b.page.SetConfig(text)
	}
	if err == nil {
		err = b.loop.Catch(unix.SIGCHLD, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	}
	if err == nil {
		err = b.client.Add(b.loop)
	}
	if err == nil {
		err = b.loop.Add(c.Main, loop.TokenMain)
	}
	if err == nil {
		err = b.fork(&Server{Name: c.Name, Env: env}, false)
	}
	if err == nil {
		err = b.begin()
	}
	if err != nil {
		return nil, err
	}
	b.publish()
	if err := g.TagMembers(); err != nil {
		b.note("a member that moves to another cgroup is not found: " + protocol.OneLine(err))
	}
	g.Note(b.notes)
	b.begun = true
	b.tellStart()
	return b, b.guard.Go(c.Payload, -1)
}
