// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
)

// killWithin is how long a process may take to die.
const killWithin = 2 * time.Second

// Stop stops the leak and all processes below it: SIGTERM, the grace period, SIGKILL. The processes below
// come first, while the leak itself is stopped and starts none: after its end they would be children of the
// manager, like any other.
func (l *Leak) Stop(grace time.Duration) error {
	if linux.Ended(l.pidfd) {
		return nil
	}
	if l.Doubt != "" {
		return errors.New(l.Doubt)
	}
	if !l.isSame() || !l.isAbandoned() || l.listens(listeners{}) {
		return errors.New("it has changed since it was examined")
	}
	if err := l.stopBelow(unix.SIGTERM, grace); err != nil {
		l.send(unix.SIGCONT)
		return err
	}
	l.send(unix.SIGTERM)
	l.send(unix.SIGCONT)
	if l.endsWithin(grace) {
		return nil
	}
	err := l.stopBelow(0, 0) // the processes that it has started on SIGTERM
	l.send(unix.SIGKILL)
	if !l.endsWithin(killWithin) {
		return errors.Join(err, fmt.Errorf("process %d does not end", l.PID))
	}
	return err
}

func (l *Leak) send(sig unix.Signal) { _ = unix.PidfdSendSignal(l.pidfd, sig, nil, 0) } // or it has ended

// stopBelow stops the leak by SIGSTOP, and the processes below it for good. ask == 0 means: kill at once.
func (l *Leak) stopBelow(ask unix.Signal, grace time.Duration) error {
	l.send(unix.SIGSTOP)
	left, err := freeze.Stop{Target: l.tree(), Request: ask, Grace: grace}.Run()
	for _, s := range left {
		err = errors.Join(err, fmt.Errorf("left: %s", s.Text))
	}
	return err
}

func (l *Leak) endsWithin(d time.Duration) bool { return linux.AwaitWithin(l.pidfd, unix.POLLIN, d) }
