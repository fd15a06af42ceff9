// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/units"
)

// findService finds the service of a gateway and, if the gateway has ended, the processes of the service that
// are left. KillMode=process leaves some at a stop, and one of them may be a server that had no message yet.
func (g *runningGateway) findService(watcher int) {
	pid := g.pid
	if g.hasEnded {
		pid = watcher
	}
	group, err := proc.ReadCgroup(pid)
	status, errStatus := proc.ReadStatus(pid)
	if err != nil || errStatus != nil {
		return // it has ended
	}
	uid := status.UID[0]
	unit, manager, ok := systemd.UnitOf(group, uid)
	if !ok {
		return
	}
	isReachable := manager == systemd.System || uid == os.Getuid()
	if g.hasEnded && isReachable && strings.HasSuffix(unit, names.ScopeSuffix) {
		unit = serviceBehind(manager, unit) // the scope has the watcher alone
	}
	name, err := units.ParseServiceName(unit)
	if err != nil || name.Full != unit { // a directory can have any name
		return
	}
	g.service = unit
	if g.hasEnded && isReachable {
		g.findLeft(manager, uid)
	}
}

// serviceBehind returns the service after which a watcher's scope is stopped, or "".
func serviceBehind(manager systemd.Kind, scope string) string {
	text, err := units.Systemctl(manager, "show", "--value", "--property=Before", scope)
	if err != nil {
		return ""
	}
	for unit := range strings.FieldsSeq(text) {
		if path.Ext(unit) == ".service" {
			return unit
		}
	}
	return ""
}

// leftMost is how many processes are named.
const leftMost = 8

// findLeft finds the processes of a service that has stopped. The name of the service may be forged, as all
// may be that a user's watcher shows: so a command is only for a group in which that user has all processes.
func (g *runningGateway) findLeft(manager systemd.Kind, uid int) {
	mainPID, err := units.Systemctl(manager, "show", "--value", "--property=MainPID", g.service)
	if err != nil || mainPID != "0" { // the next gateway has processes there, too
		return
	}
	group, err := units.Systemctl(manager, "show", "--value", "--property=ControlGroup", g.service)
	if err != nil || group == "" {
		return
	}
	hasOthers := false
	_ = proc.Each(func(pid int) bool { // no process is found without /proc
		at, err := proc.ReadCgroup(pid)
		below, isWithin := strings.CutPrefix(at+"/", group+"/")
		if err != nil || !isWithin || isOfMcpscope(below) {
			return true
		}
		status, errStatus := proc.ReadStatus(pid)
		stat, errStat := proc.ReadStat(pid)
		switch {
		case errStatus != nil || errStat != nil: // it has ended
		case status.UID[0] != uid:
			hasOthers = true
		default:
			g.left = append(g.left, fmt.Sprintf("%s[%d]", stat.Comm, pid))
		}
		return true
	})
	if len(g.left) > 0 && !hasOthers {
		g.killCommand = units.KillCommand(manager, g.service)
	}
	if len(g.left) > leftMost {
		more := fmt.Sprintf("%d more", len(g.left)-leftMost)
		g.left = append(g.left[:leftMost], more)
	}
}

// isOfMcpscope reports whether a path below the group of a unit is that of a server, or of guards.
func isOfMcpscope(below string) bool {
	first, _, _ := strings.Cut(below, "/")
	return first == names.GuardsName || strings.HasPrefix(first, names.GroupPrefix)
}
