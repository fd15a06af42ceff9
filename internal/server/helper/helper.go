// SPDX-License-Identifier: Apache-2.0

// Package helper does for a guard what raw code can't: it settles a start, looks after an idle server, finds
// who holds its stdin, moves members that are kept, ends its containers, and reports its end. It decides
// nothing about the end of the server, and another one goes on after its death. The watcher of a gateway does
// the same for its servers, and decides as a guard does.
package helper

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// Helper is a helper that a guard has started.
type Helper struct {
	server   *Server
	loop     *loop.Loop
	client   *client.Side
	settling settling
	looks    looks
	keeping  keeping
	ending   ending
}

// Serve is the whole life of a helper. memory and sock are the descriptors of the page and of the guard's
// socket. No process reads the exit status.
func Serve(memory, sock int) int {
	b, err := attach(memory, sock)
	if err == nil {
		err = b.begin()
	}
	if err != nil {
		return 125 // the guard starts another one, or does without
	}
	b.live()
	b.settling.tasks.Wait() // the sweep of the orphans of others may go on
	return 0
}

// attach makes the helper of this process, which a guard has started.
func attach(memory, sock int) (*Helper, error) {
	// For people, instead of the number of the descriptor that was executed. A process that is not dumpable
	// may not write to it.
	_ = os.WriteFile("/proc/self/comm", []byte(os.Args[0]), 0)
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
	s, err := LoadServer(p, g, int(p.ByGuard.Payload), env)
	if err != nil {
		return nil, err
	}
	side := clientOn(p, s.Config.Side)
	b := &Helper{
		server: s, loop: l, client: side, settling: settling{server: s}, ending: newEnding(s),
		looks: looks{server: s, client: side}, keeping: keeping{server: s},
	}
	// Caught, not ignored: that would be inherited by a container engine.
	return b, l.Catch(linux.Ending...)
}

// clientOn is the client's side in the descriptors that a helper has inherited.
func clientOn(p *page.Page, known protocol.ClientSide) *client.Side {
	return &client.Side{
		ClientSide: known,
		Stdin:      client.Watch(p.FD.Stdin),
		Stdout:     client.Watch(p.FD.Stdout),
		PIDFD:      int(p.FD.Client),
		Server: client.ServerSide{
			Input:    client.Watch(p.FD.Input),
			Room:     [2]client.Watch{client.Watch(p.FD.Room[0]), client.Watch(p.FD.Room[1])},
			Terminal: client.Terminal(p.FD.Terminal),
			Main:     -1,
		},
	}
}

// begin goes on where the helper before has stopped.
func (b *Helper) begin() error {
	s := b.server
	p := s.Page
	if err := b.loop.Add(s.Guard.Sock, loop.TokenGuard); err != nil {
		return err
	}
	if p.ByGuard.Stop.State.Phase > decide.Grace {
		return nil
	}
	b.looks.resume()
	b.keeping.begin()
	if p.ByLauncher.Guards > 0 {
		s.noteGuards()
		s.Group.Attributes().Note(s.Config.Output.Notes)
	}
	if p.ByGuard.Strayed {
		p.ByGuard.Strayed = false
		if err := backend.AttachGuard(s.Group, int(p.ByGuard.GuardPID)); err != nil {
			s.Note("a stop of the scope does not reach the guard: " + text.JoinLines(err))
		}
	}
	if p.ByHelper.Start.Done {
		return nil
	}
	b.settling.begin()
	return b.settling.reportTo(b.loop)
}

// live returns when there is nothing to do for a while, after the end of the server, or without a guard: the
// next one starts another helper.
func (b *Helper) live() {
	for {
		if b.doTasks() {
			return
		}
		b.looks.lookIfDue()
		b.keeping.lookIfDue()
		if b.canRest() {
			b.rest()
			return
		}
		switch b.loop.Next(b.deadline()) {
		case loop.TokenSignals:
			b.loop.Signals() // a helper ignores them; unread ones would be reported again
		case loop.TokenAdopted:
			b.server.Group.Park()
		case loop.TokenSettled:
			b.settling.finish()
		case loop.TokenGuard:
			if b.server.Guard.Drain() {
				return
			}
			b.loop.Again(b.server.Guard.Sock, loop.TokenGuard)
			b.looks.noticeThaw()
		}
	}
}

// doTasks does what the guard wants, and returns true after the end of the server.
func (b *Helper) doTasks() (isOver bool) {
	p := b.server.Page
	tasks := p.ByGuard.Tasks
	if tasks&page.EndContainers != 0 && !p.ByHelper.ContainersGone {
		b.ending.stopContainers(0)
		p.ByHelper.ContainersGone = true
		b.server.Guard.Look()
	}
	if tasks&page.KeepMembers != 0 && !p.ByHelper.Daemons.MembersKept {
		b.keeping.lookAtStop()
		p.ByHelper.Daemons.MembersKept = true
		b.server.Guard.Look()
	}
	if tasks&page.FindUse != 0 && !p.ByHelper.Daemons.UseFound {
		b.server.findUse()
		b.server.Guard.Look()
	}
	if tasks&page.FindHolder != 0 && p.ByHelper.Holder == page.NoAnswer {
		b.findHolder()
		b.server.Guard.Look()
	}
	if tasks&page.End != 0 {
		b.end()
		return true
	}
	return false
}

// deadline is when the next look is due; the zero time for never.
func (b *Helper) deadline() time.Time { return earlier(b.looks.deadline(), b.keeping.deadline()) }

// earlier is the earlier one of two times, where the zero time stands for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (b *Helper) findHolder() {
	s := b.server
	ours := []int{s.Config.Facts.Launcher.PID, int(s.Page.ByGuard.GuardPID)}
	outer := freeze.TagOn(s.Config.Facts.Launcher.PID)
	pid, found := b.client.FindHolder(s.Group.Members(), outer, ours)
	s.Page.ByHelper.HolderPID = int32(pid)
	s.Page.ByHelper.Holder = found
}

// restLeast: to start the next helper takes some milliseconds of CPU.
const restLeast = time.Second

// canRest reports whether the guard can do without a helper until it has a task, or the next look is due.
func (b *Helper) canRest() bool {
	if b.server.Page.ByGuard.Tasks != 0 || b.settling.isRunning {
		return false
	}
	next := b.deadline()
	return next.IsZero() || time.Until(next) > restLeast
}

// rest ends the helper. The guard starts another one if it has a task meanwhile.
func (b *Helper) rest() {
	b.looks.save()
	b.server.Page.ByHelper.CallHelperAt = monotonic(b.deadline(), time.Now())
	b.server.Guard.SendWord(page.WordRest)
}

// end reports the end of a server, and removes its group. The helper before may have done a part of that.
func (b *Helper) end() {
	if !b.server.Page.ByHelper.Start.Begun {
		b.settleEnded()
	}
	b.ending.finish(func() {
		b.server.Guard.SendWord(page.WordDone)
		b.settling.sweeping.Wait()
	})
}

// settleEnded makes up for tasks of the start, of a server that has ended before they were done.
func (b *Helper) settleEnded() {
	p := b.server.Page
	if b.ending.mustReport() {
		b.server.logStart()
	}
	if p.ByLauncher.EndLeft == page.LeftReturned { // otherwise sweepNested may sweep
		b.settling.beginSweep()
	}
}

// monotonic is a time on the clock of the page; 0 for none.
func monotonic(t, now time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return clock() + int64(t.Sub(now))
}

// clock is the clock of the page.
func clock() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it can't fail
	return ts.Nano()
}

// fromMonotonic is the inverse of monotonic.
func fromMonotonic(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(nanos - clock()))
}
