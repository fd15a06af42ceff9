// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// UncontainedGateway is a running gateway whose servers are not contained, or only without cgroups.
type UncontainedGateway struct {
	Unit   string            `json:"unit"` // or the path of its control group, outside of any unit
	State  containment.State `json:"state"`
	Reason string            `json:"reason"`
	Remedy string            `json:"remedy,omitempty"`
}

const noGroup = "no server of it can get a group; its log has the reason"

// UncontainedGateways lists services with a drop-in of mcpscope, and other gateways. Root sees those of all
// users.
func UncontainedGateways() (gateways []UncontainedGateway) {
	services := runningGateways() // none, without a manager
	for _, s := range services {
		c, err := findContainment(s)
		isLacking := c.State == containment.Uncontained || c.State == containment.Weaker
		if err == nil && isLacking { // others do not run
			g := UncontainedGateway{Unit: s.Name, State: c.State, Reason: c.Reason, Remedy: c.Remedy}
			gateways = append(gateways, g)
		}
	}
	for _, path := range containment.UncontainedGroups(proc.Take(), visibleUsers()) {
		name := path
		if unit, _, ok := systemd.UnitOf(path, os.Getuid()); ok {
			name = unit
		}
		isListed := func(s systemd.Service) bool { return s.Name == name || groupOf(s) == path }
		if !slices.ContainsFunc(services, isListed) {
			g := UncontainedGateway{Unit: name, State: containment.Uncontained, Reason: noGroup}
			gateways = append(gateways, g)
		}
	}
	return gateways
}

// visibleUsers is everyone for root, and otherwise the calling user.
func visibleUsers() group.Users {
	if os.Getuid() == 0 {
		return group.Everyone()
	}
	return group.CallingUser()
}

// runningGateways reads the services that run `mcpscope gateway`, or that have a drop-in of mcpscope, as
// their manager has them.
func runningGateways() (gateways []systemd.Service) {
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return nil
	}
	defer c.Close()
	names, _ := c.RunningServices() // as far as the manager answers
	var withDropIn []string
	dir, err := Dir()
	if err == nil {
		withDropIn = Gateways(dir)
	}
	for _, name := range names {
		commands, _ := c.Commands(name) // none, if the service has gone
		if !slices.ContainsFunc(commands, isGateway) && !slices.Contains(withDropIn, name) {
			continue
		}
		s, err := c.Service(name)
		if err == nil {
			gateways = append(gateways, s)
		}
	}
	return gateways
}

// Gateways returns the services with our drop-in in a directory of units.
func Gateways(dir string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.service.d", dropInName)) // the pattern is sound
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && IsDropIn(file, string(text)) {
			names = append(names, strings.TrimSuffix(filepath.Base(filepath.Dir(file)), ".d"))
		}
	}
	return names
}

// HasChanged reports whether files of a service have changed since its drop-in was written, which has the
// command that the service had then. It is false without a drop-in, and of one that was edited.
func HasChanged(unit string) (bool, error) {
	s, err := findService(ServiceName{Entered: unit, Full: unit})
	if err != nil {
		return false, err
	}
	g := Gateway{service: s}
	g.dir, err = Dir()
	if err != nil {
		return false, err
	}
	g.readInstalled()
	o, ok := parseOverride(g.installed)
	return ok && o.Source != sourceOf(s), nil
}
