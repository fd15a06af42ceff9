// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/helper"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Heir is the process that goes on with the servers of a watcher that is dead.
type Heir struct {
	Hub   *loop.Hub
	Env   []string
	Guard int // pid of the client's
	// ClientPIDFD finds the client of a server again.
	ClientPIDFD func(protocol.ClientFacts) int
}

// Retake continues with a server of the watcher before. It returns nil for one that was released, or not
// taken yet, or that has ended meanwhile. After an error k is still open: the next watcher may try again.
func (h *Heir) Retake(k page.Kept) (_ *TakenServer, err error) {
	for _, fd := range k.FDs() {
		unix.CloseOnExec(int(fd)) // EBADF for -1
	}
	p, err := page.Open(int(k.Memory))
	if err != nil {
		return nil, err
	}
	if p.ByWatcher.Released {
		p.Unmap()
		closeKept(k)
		return nil, nil
	}
	var t *TakenServer
	waits := h.Hub.Loop()
	defer func() {
		if err != nil {
			waits.Close() // before descriptors that it waits for
			closeWatched(t)
			p.Unmap()
		}
	}()
	renumber(p, k)
	t, err = h.load(p, k, waits)
	if err != nil {
		return nil, err
	}
	isUntaken := p.Directories[0] != 0 // Take clears them when the process is in the group
	if isUntaken && !group.Populated(t.server.Group.Members()) {
		t.Release()
		return nil, nil
	}
	if err := h.watchAgain(t); err != nil {
		return nil, err
	}
	return t, nil
}

func closeKept(k page.Kept) {
	for _, fd := range k.FDs() {
		_ = unix.Close(int(fd)) // nothing to flush; EBADF for -1
	}
}

// renumber writes the numbers of this process's descriptors to the page.
func renumber(p *page.Page, k page.Kept) {
	p.ByGuard.Payload = k.Payload
	p.Memory = k.Memory
	for i := range p.Descriptors() {
		p.Descriptors()[i] = -1
	}
	p.ByGuard.Generation++ // the other process may still run
	p.ByGuard.GuardPID = 0 // the guard of the start ended with the watcher before
}

// load makes a server of this process from the page of one of the watcher before. An unproven one has not
// begun.
func (h *Heir) load(p *page.Page, k page.Kept, waits *loop.Loop) (*TakenServer, error) {
	server, err := helper.LoadServer(p, noGuard(p), int(k.Payload), h.Env)
	if err != nil {
		return nil, err
	}
	w := helper.NewWatched(server, waits)
	if !p.ByWatcher.Unproven {
		err = w.Begin()
	}
	if err != nil {
		_ = unix.Close(w.Events) // a file that is only read, or -1
		return nil, err
	}
	t := newTaken(w)
	clientPIDFD := h.ClientPIDFD(t.Config.Facts.Client)
	p.FD.Client = int32(clientPIDFD)
	t.client = &client.Side{
		ClientSide: t.Config.Side,
		Stdin:      client.Watch(k.Stdin),
		Stdout:     client.Watch(k.Stdout),
		PIDFD:      clientPIDFD,
		Server:     client.OfChild(-1, membersOf(t.server)),
	}
	return t, nil
}

// watchAgain watches the main process and the client's side again. Guide does the rest for an unproven
// server.
func (h *Heir) watchAgain(t *TakenServer) error {
	main, err := openProcess(t.Config.Main)
	t.client.Server.Main = main
	if err != nil {
		return err
	}
	if t.Config.Facts.Policy.IdleFreeze > 0 {
		t.client.Rewatch()
	}
	if !t.IsProven() {
		return nil
	}
	t.Config.Facts.Launcher, _ = group.Identify(os.Getpid()) // as far as it can be seen
	showLife(t.watched.Events)
	t.GuardedBy(h.Guard)
	return t.watched.TakeOver(t.client)
}

// openProcess returns a pidfd, or -1 if the process has ended.
func openProcess(i protocol.Identity) (pidfd int, err error) {
	pidfd, err = unix.PidfdOpen(i.PID, 0)
	if err != nil {
		return -1, proc.IgnoreGone(err)
	}
	if now, err := group.Identify(i.PID); err != nil || now.Start != i.Start { // its pid is another's
		_ = unix.Close(pidfd)
		return -1, nil
	}
	return pidfd, nil
}

// Reguard is GuardedBy for a server that no watcher could go on with.
func Reguard(k page.Kept, pid int) {
	fd, err := unix.FcntlInt(uintptr(k.Payload), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	g, err := group.Reopen(fd, protocol.Placed{})
	if err != nil {
		return // it was removed
	}
	defer g.Close()
	_, armed, err := g.Payload.Attr(group.AttrArmed)
	if err != nil || !armed {
		return // it is not proven a server
	}
	facts := g.Attributes().Facts()
	facts.Guard, _ = group.Identify(pid)                        // without its start, only the pid counts
	_ = g.Attributes().Register(&protocol.Config{Facts: facts}) // it was removed meanwhile
}
