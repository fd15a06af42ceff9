// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/spawn"
	"github.com/mcpscope/mcpscope/scope/internal/lifecycle"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// bearsFirst tells whether the server is born before its supervisor executes anything, which saves it the wait for that.
// It takes a group that there is already and that somebody can kill who stands by, and nothing that only a supervisor can
// do before the start: limits, and a stream of the journal.
func (l *launcher) bearsFirst() bool {
	if !spawn.CanPair || l.group == nil || len(l.config.Limits.Files) > 0 || l.config.Stderr == protocol.StderrJournal {
		return false
	}
	return l.group.Standby() != nil && l.group.Killable() && untraced()
}

// untraced tells whether nobody of our user can trace a process that is no child of theirs (yama): a supervisor can be traced
// until it has armed itself, and root's server may do so at any time.
func untraced() bool {
	b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return os.Getuid() == 0 || err == nil && len(b) > 0 && b[0] != '0'
}

// bear starts the server, below a process that then becomes its supervisor.
func (l *launcher) bear(supervisor spawn.Cmd) error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		null = -1 // then the supervisor keeps the client's, which a server hardly notices
	}
	defer unix.Close(null)
	if l.server.Report >= 0 {
		unix.CloseOnExec(l.server.Report) // it may be the client's, and is not the server's
	}
	<-l.reserved // a server that uses up all processes must not end us
	supervisor.Argv[protocol.MainArgument] = spawn.PIDDigits
	standby := l.group.Standby()
	pair := spawn.Pair{
		Parent: supervisor, PID: protocol.MainArgument, Null: null, Standby: standby,
		Main:    lifecycle.MainCommand(l.config, l.group.Ident(), l.group.PayloadGroup(), l.server.Env),
		Release: slices.DeleteFunc(slices.Clone(l.server.Foreign), func(fd int) bool { return fd == l.server.Report }),
	}
	standby.Birth()
	l.birth, err = pair.Start()
	return err
}

// born takes in what became of both. A failure ends everything.
func (l *launcher) born() error {
	if l.birth == nil || l.bornSeen {
		return nil
	}
	known, err := l.birth.Outcome()
	if !known {
		return nil
	}
	l.bornSeen = true
	l.birth.Close()
	if err == nil {
		return nil
	}
	l.abandon()
	var start *spawn.StartError
	switch {
	case errors.Is(err, spawn.ErrParent):
		return fmt.Errorf("%w: %w", protocol.ErrSpawn, err)
	case errors.As(err, &start) && start.Step == spawn.StepExec:
		return &protocol.CommandError{Command: l.server.Path, Errno: start.Errno}
	}
	return err
}

// endStandby returns when nobody stands by any more.
func (l *launcher) endStandby() {
	if l.group == nil {
		return
	}
	if standby := l.group.Standby(); standby != nil {
		standby.End(protocol.StandbyWithin)
	}
	if l.subreaper {
		lifecycle.ReapAll(func(int, unix.WaitStatus) {}) // nobody else does
	}
}

// executable is the path of a file that is ours, by its name where it still has that: what the server sees its parent
// called is the last element of the path that was executed.
func executable(file string) string {
	path, err := os.Readlink(file)
	if err != nil {
		return file
	}
	var named, ours unix.Stat_t
	if unix.Stat(path, &named) != nil || unix.Stat(file, &ours) != nil || named.Dev != ours.Dev || named.Ino != ours.Ino {
		return file
	}
	return path
}
