// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// hierarchy has the facts about cgroup2 that decide which limits are possible.
type hierarchy struct {
	mount       string
	controllers []string // of its root; no group has others
	isHybrid    bool
}

func readHierarchy() (h hierarchy, err error) {
	root, _, err := group.Position(0)
	if err != nil {
		return h, err
	}
	defer root.Close()
	text, err := root.Read("cgroup.controllers")
	return hierarchy{
		mount:       root.Path(),
		controllers: strings.Fields(string(text)),
		isHybrid:    group.IsHybrid(),
	}, err
}

// LimitNotes are about limits in the flags of the drop-in that no server can have, as far as that is known
// before the service runs with them.
func (d DropIn) LimitNotes() []string {
	h, err := readHierarchy()
	if err != nil {
		return nil // the trial after the restart has the reason
	}
	words, _ := d.Gateway.service.keepInGroup(d.Flags.Words)
	return d.Gateway.service.limitNotes(words, h)
}

func (s service) limitNotes(flags []string, h hierarchy) (notes []string) {
	values := settings.Defaults()
	_, _, err := values.FromArguments(settings.Gateway, flags)
	if err != nil {
		return nil
	}
	b := values.Backend
	if b == names.Auto {
		b = s.likelyBackend()
	}
	controllers := h.controllers
	hasNone := b == names.Tree || b == names.Delegated && s.written().LastValues["DelegateSubgroup"] == ""
	if hasNone { // the gateway is in the delegated group itself
		controllers = nil
	}
	var files []string
	var missing []string
	for _, limit := range values.Inapplicable(controllers) {
		files = append(files, limit.File)
		controller, _, _ := strings.Cut(limit.File, ".")
		if !slices.Contains(missing, controller) {
			missing = append(missing, controller)
		}
	}
	if len(files) == 0 {
		return nil
	}
	const text = "servers will run without a limit: %s: their groups have no controller %s"
	note := fmt.Sprintf(text, strings.Join(files, ", "), strings.Join(missing, ", "))
	step := group.StepForControllers(b, missing, h.mount, h.isHybrid)
	if step != "" {
		note += "; " + step
	}
	return []string{note}
}

// likelyBackend is the one that servers get without a flag. In a system service with a user that is the group
// of the unit, whether that user has a manager or not.
func (s service) likelyBackend() names.Backend {
	switch {
	case s.Manager == systemd.User:
		return names.SystemdUser
	case s.runsAsUser():
		return names.Delegated
	}
	return names.SystemdSystem
}
