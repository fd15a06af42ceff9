//go:build linux

package scope

import (
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/spawn"

	"golang.org/x/sys/unix"
)

func (g *controlGroup) ident() string { return g.id }
func (g *controlGroup) members() payload {
	if g.owned {
		return ownPayload{g.payload, g.top}
	}
	return g.payload
}
func (g *controlGroup) cradle() spawn.Group { return g.supervisor }

func (g *controlGroup) started(_, _ int) error { return nil }

func (g *controlGroup) placed() (placed, []int) {
	return placed{ID: g.id, Dir: g.dir, Managed: g.managed}, []int{g.payload.FD()}
}

func (g *controlGroup) wakeSupervisor() {
	_ = g.supervisor.Thaw()
	_ = g.top.SetFrozen(false) // gone, or never frozen: as good
	_, _ = freeze.Signal(g.supervisor, unix.SIGCONT)
}

func (g *controlGroup) supervisorStopped() bool {
	pids, err := g.supervisor.Members()
	if err != nil || len(pids) != 1 {
		return true // no supervisor where it belongs: not slow, at any rate
	}
	if s, err := g.supervisor.State(); err != nil || s.Frozen {
		return true
	}
	st, err := proc.ReadStat(pids[0])
	return err != nil || st.Stopped()
}

func (g *controlGroup) killSupervisor() { _, _ = freeze.Kill(g.supervisor, supervisorGoneWithin) }

func (g *controlGroup) endAll() (freeze.Result, error) { return g.endWithMarked(freeze.Stop{}) }
