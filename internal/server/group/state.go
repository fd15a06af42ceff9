// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Subject of an orphan, by its attributes.
func (g *ControlGroup) Subject() protocol.Subject {
	attr := func(name string) string {
		value, _, _ := g.Payload.Attr(name) // none, if it can't be read
		return value
	}
	s := protocol.Subject{ID: g.ID, Name: attr(AttrName), Client: protocol.ParseClient(attr(AttrClient))}
	s.Client.Unit = attr(AttrUnit)
	return s
}

// Engine is the container engine that runs the server, "" if none does or it is another user's. The server
// itself may have written which one that is, so it is one of those that are known.
func (g *ControlGroup) Engine() string {
	engine, is, _ := g.Payload.Attr(AttrEngine) // none, if it can't be read
	if !is || g.owner() != os.Getuid() || protocol.EngineOf([]string{engine, "run"}) != engine {
		return ""
	}
	return engine
}

// ErrOthers is what another user's servers are to anyone but root. It is made when it is needed: to format it
// takes longer than any other initialization of ours, and every server would pay for it twice.
func ErrOthers() error { return fmt.Errorf("look at other users' servers: %w", unix.EPERM) }

// SupervisorPID is 0 where the leaf is empty, or a member has removed it when it was.
func (g *ControlGroup) SupervisorPID() int {
	b, err := g.Top.Read(protocol.SupervisorName + "/cgroup.procs")
	if err != nil {
		return 0
	}
	pids, _ := proc.ParsePIDs(b) // as far as they can be read
	for _, pid := range pids {
		if pid > 0 { // as our pid namespace numbers it
			return pid
		}
	}
	return 0
}

// Populated takes what can't be read for populated: to believe in a member that is not
// there costs time, the other mistake costs a survivor.
func Populated(g freeze.Target) bool {
	st, err := g.State()
	return err != nil || st.Populated
}

// IgnoreGone: a group that ends while it is looked at is no error.
func IgnoreGone(err error) error {
	if protocol.IsGone(err) {
		return nil
	}
	return err
}

// IgnoreBusy: it has a member after all, or somebody has made a directory in it.
func IgnoreBusy(err error) error {
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// Supervises tells whether a process is called as a supervisor, which it is not before it has executed
// anything.
func Supervises(pid int) bool {
	line, err := proc.Cmdline(pid, protocol.CommandMost)
	return err == nil && strings.HasPrefix(line, protocol.SuperviseLine)
}

func AllStopped(pids []int) bool {
	for _, pid := range pids {
		if st, err := proc.ReadStat(pid); err != nil || !st.Stopped() {
			return false
		}
	}
	return true
}

// ThawOurs is for a directory of ours that a process is about to be born in, or to enter: a server
// that may write to it can have frozen it.
func ThawOurs(g *cgroup.Group) {
	if Frozen(g) {
		_ = g.SetFrozen(false) // what is frozen above it stays so
	}
}

// DescribeStuck is for people.
func DescribeStuck(all []freeze.Stuck) string {
	var parts []string
	for _, m := range all {
		text := fmt.Sprintf("process %d (%s)", m.PID, m.Name)
		switch {
		case m.State != 'D':
			text += ", not ended by SIGKILL"
		case m.Wchan != "":
			text += ", sleeping uninterruptibly in " + m.Wchan
		default:
			text += ", sleeping uninterruptibly"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func IsEmpty(s cgroup.State) bool { return !s.Populated }
