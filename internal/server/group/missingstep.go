// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// MissingStep is what makes the controller come down to our groups.
func MissingStep(e *cgroup.MissingError, from protocol.Backend) string {
	switch {
	case e.Group == "":
		return e.Kernel
	case from == protocol.Delegated:
		return delegatedStep(e)
	case from == protocol.SystemdUser && !strings.Contains(e.Group, fmt.Sprintf("/user@%d.service", os.Getuid())):
		all := []string{"cpu", "memory", "pids"}
		if !slices.Contains(all, e.Controller) {
			all = append(all, e.Controller)
		}
		return "sudo systemctl edit user@.service, with the lines [Service] and Delegate=" + strings.Join(all, " ") +
			fmt.Sprintf(", and then sudo systemctl restart user@%d.service, which ends all that it runs", os.Getuid())
	case from != protocol.Cgroup:
		return "systemctl status has to show who keeps it there: DisableControllers=, or a unit without Delegate="
	case path.Base(e.Group) == protocol.SliceName:
		return protocol.SliceName + " is systemd's here: --backend " + string(protocol.SystemdSystem)
	case e.Crowded:
		return fmt.Sprintf("move the processes of %s to a group below it, then echo +%s > %[1]s/cgroup.subtree_control", e.Group, e.Controller)
	}
	return fmt.Sprintf("echo +%s > %s/cgroup.subtree_control", e.Controller, e.Group)
}

// delegatedStep: the client is in the delegated group itself, which therefore can't hand anything
// down to groups beside it.
func delegatedStep(e *cgroup.MissingError) string {
	if e.Crowded {
		unit := "UNIT"
		if name, _, ok := systemd.UnitOf(e.Group, os.Getuid()); ok {
			unit = name
		}
		return "the client itself is in that group, which then can't limit groups in it: limit the whole unit (systemctl set-property " +
			unit + " MemoryMax=…), or have the client in a group below (DelegateSubgroup=) and echo +" + e.Controller + " > " + e.Group + "/cgroup.subtree_control"
	}
	return fmt.Sprintf("delegate it (Delegate=%s), or echo +%[1]s > %s/cgroup.subtree_control", e.Controller, e.Group)
}
