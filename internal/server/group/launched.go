// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

func (g *ControlGroup) Ident() string { return g.ID }

func (g *ControlGroup) Members() Payload { return g.Payload }

func (g *ControlGroup) SupervisorGroup() spawn.Group { return g.Supervisor }

func (g *ControlGroup) Begun(int) {}

func (g *ControlGroup) Started(_, _ int) error {
	g.Adopt()
	return nil
}

func (g *ControlGroup) Adopt() {
	if g.adopt == nil || g.adopted != nil {
		return
	}
	g.adopted = make(chan struct{})
	go func() {
		defer close(g.adopted)
		g.adopt(g)
	}()
}

func (g *ControlGroup) Placed() (protocol.Placed, []int) {
	return protocol.Placed{ID: g.ID, Dir: g.Dir, Managed: g.Managed}, []int{g.Payload.FD()}
}

func (g *ControlGroup) Standby() *spawn.Standby { return g.standby }

func (g *ControlGroup) Killable() bool {
	fd, err := g.Top.OpenKill()
	if err == nil {
		_ = unix.Close(fd) // it was not written to
	}
	return err == nil
}

// standBy starts a process in the leaf that supervisors go to at their end, out of reach of who ends the client.
func (g *ControlGroup) standBy() (*spawn.Standby, error) {
	leaf, err := g.leaving()
	if err != nil {
		return nil, err
	}
	defer leaf.Close()
	return spawn.StandBy(leaf, g.Parent, g.Dir, []string{protocol.PayloadName, protocol.SupervisorName}, protocol.StandbyWithin,
		spawn.Cleaner{Path: "/proc/self/exe", Argv: func(parent int) []string { return protocol.CleanArgs(parent, g.Dir) }})
}

func (g *ControlGroup) WakeSupervisor() {
	_ = g.Supervisor.Thaw()
	_ = g.Top.SetFrozen(false) // gone, or never frozen: as good
	_, _ = freeze.Signal(g.Supervisor, unix.SIGCONT)
}

func (g *ControlGroup) SupervisorStopped() bool {
	pids, err := g.Supervisor.Members()
	if err != nil || len(pids) == 0 || len(pids) > 1 && !g.accompanied {
		return true // no supervisor where it belongs: not slow, at any rate
	}
	if s, err := g.Supervisor.State(); err != nil || s.Frozen {
		return true
	}
	return slices.ContainsFunc(pids, func(pid int) bool { // it has others there while it asks an engine
		st, err := proc.ReadStat(pid)
		return err == nil && st.Stopped() || err != nil && len(pids) == 1
	})
}

func (g *ControlGroup) KillSupervisor() {
	_, _ = freeze.Kill(g.Supervisor, protocol.SupervisorGoneWithin)
}

func (g *ControlGroup) EndAll() (freeze.Result, error) { return g.EndWithTagged(freeze.Stop{}) }
