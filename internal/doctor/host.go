// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"os/user"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/advice"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/units"
)

// Host contains facts that explain why a backend works or fails. Only a trial proves that it works.
type Host struct {
	Kernel    string       `json:"kernel"`
	Old       bool         `json:"kernel_too_old,omitempty"`
	Cgroup    Cgroup       `json:"cgroup"`
	Lingering bool         `json:"lingering"`
	Init      Init         `json:"init"`
	Unit      *advice.Unit `json:"unit,omitempty"`
	Swap      string       `json:"swap,omitempty"` // zram or disk
	// SwapRemedy is a command for a host without swap.
	SwapRemedy string `json:"swap_remedy,omitempty"`
}

// Init is the process that adopts orphans.
type Init struct {
	Name  string `json:"name,omitempty"`
	Reaps bool   `json:"reaps"` // false if it is not known
}

// Cgroup is the place of this process in the cgroup2 hierarchy.
type Cgroup struct {
	Mount   string `json:"mount,omitempty"`
	Path    string `json:"path,omitempty"`
	Hybrid  bool   `json:"hybrid"` // cgroup v1 is mounted, too, and has controllers
	Problem string `json:"problem,omitempty"`
}

func readHost() Host {
	h := Host{
		Kernel:    readKernel(),
		Cgroup:    readCgroup(),
		Lingering: isLingering(),
		Unit:      readUnit(),
		Swap:      Swap(),
	}
	h.Old = isTooOld(h.Kernel)
	h.Init.Name, _ = proc.Comm(1) // "" without /proc
	h.Init.Reaps = group.InitReaps()
	if h.Swap == "" {
		h.SwapRemedy = ZramCommand()
	}
	return h
}

func readKernel() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	return unix.ByteSliceToString(name.Release[:])
}

// isTooOld reports whether a release of Linux is older than 5.14, which has cgroup.kill.
func isTooOld(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	if err != nil {
		return false
	}
	return major < 5 || major == 5 && minor < 14
}

func isLingering() bool {
	u, err := user.Current()
	if err != nil {
		return false
	}
	_, err = os.Stat("/var/lib/systemd/linger/" + u.Username)
	return err == nil
}

func readCgroup() Cgroup {
	var c Cgroup
	root, _, err := group.Position(0)
	if err != nil {
		c.Problem = err.Error()
	} else {
		c.Mount = root.Path()
		_ = root.Close() // a directory
	}
	c.Path, _ = proc.ReadCgroup(0) // "" without /proc
	c.Hybrid = group.IsHybrid()
	return c
}

func (c Cgroup) text() string {
	if c.Problem != "" {
		return c.Problem
	}
	text := "v2 at " + c.Mount
	if c.Hybrid {
		text += ", with controllers in v1"
	}
	return text + "; mcpscope runs in " + c.Path
}

// readUnit returns the unit of this process, or nil.
func readUnit() *advice.Unit {
	unit := advice.OwnUnit()
	if unit != nil && unit.Service() {
		unit.KillMode, _ = units.Systemctl( // "" without an answer
			unit.Manager, "show", "--value", "--property=KillMode", unit.Name)
	}
	return unit
}
