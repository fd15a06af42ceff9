// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// settling has the tasks that a start leaves for later, so that they keep neither the server nor a signal
// waiting.
type settling struct {
	beside sync.WaitGroup
	sweep  sync.WaitGroup // of the orphans that this brain stops
	done   int            // eventfd: readable when all goroutines have ended; -1 before they begin
}

// SettleAfter is how long a server runs before its start is settled. Many commands have ended by then.
const SettleAfter = 10 * time.Millisecond

// settle begins the tasks that wait until the server runs.
func (b *Brain) settle() {
	if b.Page.Started.Mark == page.StartedMark {
		_ = b.Group.Register(b.Config) // it was removed
	}
	b.logStart()
	guard := freeze.Root{PID: int(b.Page.ByGuard.GuardPID), PIDFD: b.Guard.PIDFD}
	b.Group.AdoptBy = backend.Adoption(b.Config, guard)
	b.Group.Adopt()
	b.beside.Go(b.Group.AwaitAdoption)
	if b.Config.Replace {
		b.beside.Go(b.replaceOlder)
	}
	b.beginSweep()
	b.Page.ByBrain.Settled = true
}

// beginSweep stops the orphans beside the group. To look for them takes the longer the more servers there
// are.
func (b *Brain) beginSweep() {
	parent, own := b.Group.Beside()
	b.Page.ByBrain.Sweeping = true
	b.sweep.Go(func() {
		sweep.BeginSweep(parent, own).Await()
		b.Page.ByBrain.Sweeping = false
	})
	b.beside.Go(b.sweep.Wait)
}

// awaitSettled has the loop report when all is done.
func (b *Brain) awaitSettled() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	b.done = fd
	go func() {
		b.beside.Wait()
		_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // the counter is zero, so there is room
	}()
	return b.Loop.Add(fd, loop.TokenAdopted)
}

// adopted is for the end of all that was begun.
func (b *Brain) adopted() {
	if b.Config.Taken {
		b.Group.Park()
		return
	}
	_ = unix.Close(b.done)
	b.done = -1
}

func (b *Brain) isSettled() bool { return b.done < 0 }

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
			if err := l.RequestStop(); err != nil {
				b.Note("the older server " + l.ID + " stays: " + err.Error())
			}
		case -1:
			if own.Taken {
				_ = b.Group.AskToStop() // without it this server stays, as the newer one does
			} else {
				_ = unix.PidfdSendSignal(b.Guard.PIDFD, protocol.StopSignal, nil, 0) // it has ended
			}
		}
	}
}
