// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MissingError says that a group can't have a controller.
type MissingError struct {
	Controller string
	// Group has the controller, and does not hand it down; "" if there is none in the hierarchy.
	Group string
	// Crowded is a group with processes of its own, which as long as they are there can't hand
	// down any (the root can).
	Crowded bool
	// Kernel says what to do where there is none.
	Kernel string
}

func (e *MissingError) Error() string {
	if e.Group == "" {
		return fmt.Sprintf("there is no controller %s in this hierarchy", e.Controller)
	}
	return fmt.Sprintf("%s does not hand the controller %s down", e.Group, e.Controller)
}

// Is makes the error match errors.ErrUnsupported.
func (e *MissingError) Is(target error) bool { return target == errors.ErrUnsupported }

// missing finds out where on the way down to g the controller ends.
func missing(g *Group, controller string) error {
	above, err := g.Parent()
	if err != nil {
		return err
	}
	defer above.Close()
	if _, err := above.Read("cgroup.controllers"); err != nil { // it is what the hierarchy is mounted on
		return &MissingError{Controller: controller, Kernel: kernelStep(g, controller)}
	}
	if !lists(above, "cgroup.controllers", controller) {
		return missing(above, controller)
	}
	return &MissingError{Controller: controller, Group: where(above), Crowded: crowded(above)}
}

// isRoot goes by a file that the root of the hierarchy has not, and that of a namespace has.
func isRoot(g *Group) bool {
	_, err := g.Read("cgroup.type")
	return errors.Is(err, unix.ENOENT)
}

func crowded(g *Group) bool {
	b, err := g.Read("cgroup.procs")
	return err == nil && len(b) > 0 && !isRoot(g)
}

// where is the directory, which is known by descriptor.
func where(g *Group) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", g.FD()))
	if err != nil {
		return g.Path()
	}
	return path
}

// kernelStep goes by /proc/cgroups, which knows the controllers of cgroup v1 by their names
// there.
func kernelStep(root *Group, controller string) string {
	if !isRoot(root) {
		return "it is for whoever made this container to give it " + controller
	}
	old := map[string]string{"io": "blkio"}[controller]
	if old == "" {
		old = controller
	}
	b, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		switch f := strings.Fields(line); {
		case len(f) != 4 || f[0] != old:
		case f[3] == "0":
			return "boot Linux with cgroup_enable=" + old
		case f[1] != "0":
			return "cgroup v1 has it on this host: boot with systemd.unified_cgroup_hierarchy=1, or without what mounts it"
		}
	}
	return "it takes a kernel that was built with it"
}
