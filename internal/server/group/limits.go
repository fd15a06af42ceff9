// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// ErrNoGroup is for a tree.
var ErrNoGroup = &protocol.LimitError{
	Text: "the backend tree has no group that could be limited", Step: limitStep,
}

// limitStep: doctor lists the controllers of each backend.
const limitStep = "mcpscope doctor"

// Limit sets a limit. The first memory limit makes the kernel kill the whole server when it is out of
// memory.
func (g *ControlGroup) Limit(l cgroup.Limit, from protocol.Backend) (now string, err error) {
	if g.tree != nil {
		return "", ErrNoGroup
	}
	owned := g.OwnedAbove(from)
	first := !slices.ContainsFunc(g.LimitedFiles(), cgroup.OfMemory)
	if first && cgroup.OfMemory(l.File) && l.File != cgroup.OOMGroup {
		_, err = cgroup.SetLimit(g.Payload, cgroup.Limit{File: cgroup.OOMGroup, Value: "1"}, owned)
	}
	if err == nil {
		now, err = cgroup.SetLimit(g.Payload, l, owned)
	}
	if err != nil {
		err = LimitError(l, err)
	}
	return now, err
}

func LimitError(l cgroup.Limit, err error) error {
	return &protocol.LimitError{Text: fmt.Sprintf("set %s: %v", l, err), Step: limitStep}
}

// OwnedAbove counts the directories above the payload whose subtree_control is ours: the group, and those
// that the backend cgroup makes.
func (g *ControlGroup) OwnedAbove(from protocol.Backend) int {
	if from != protocol.Cgroup {
		return 1
	}
	users, err := g.Top.Parent()
	if err != nil {
		return 1
	}
	defer users.Close()
	slice, err := users.Parent()
	if err != nil {
		return 2
	}
	defer slice.Close()
	if OfSystemd(slice) {
		return 2
	}
	return 3
}

// OfSystemd recognizes an attribute that systemd sets on the groups of its units.
func OfSystemd(g *cgroup.Group) bool {
	_, marked, _ := g.Attr("trusted.invocation_id") // only root can read it, and only root has such groups
	return marked
}

// Limited records which files have limits.
func (g *ControlGroup) Limited(files []string) {
	all := g.LimitedFiles()
	for _, f := range files {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	g.record(attrLimits, strings.Join(all, " "))
}

func (g *ControlGroup) LimitedFiles() []string {
	text, _, _ := g.Payload.Attr(attrLimits) // none, if it can't be read
	return strings.Fields(text)
}

const limitsMost = 64

// LimitsNow returns the present limits. A process of the user can have written the list of files.
func (g *ControlGroup) LimitsNow() map[string]string {
	var all map[string]string
	files := g.LimitedFiles()
	for _, file := range files[:min(len(files), limitsMost)] {
		if strings.ContainsRune(file, '/') {
			continue
		}
		now, err := cgroup.ReadLimit(g.Payload, file)
		if err != nil {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[file] = now
	}
	return all
}
