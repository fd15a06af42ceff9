// SPDX-License-Identifier: Apache-2.0

package group

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// ErrNoGroup: a tree has no group that could be limited.
var ErrNoGroup = &protocol.LimitError{
	Text: "the backend tree has no group that could be limited", Step: limitStep,
}

// limitStep: doctor lists the controllers of each backend.
const limitStep = "mcpscope doctor"

// Limits are those of a group and of the session that it is in, with the figures that the kernel counts.
type Limits struct{ of *ControlGroup }

// Limits returns the limits of resources, and the figures of what is used.
func (g *ControlGroup) Limits() Limits { return Limits{g} }

// Set sets a limit, and records that its file has one. The first memory limit makes the kernel kill the
// whole server when it is out of memory. A limit that fails leaves that as it was.
func (l Limits) Set(limit cgroup.Limit) (now string, err error) {
	if l.of.IsTree() {
		return "", ErrNoGroup
	}
	limited := l.files()
	isFirst := !slices.ContainsFunc(limited, cgroup.OfMemory)
	needsWhole := isFirst && cgroup.OfMemory(limit.File) && limit.File != cgroup.OOMGroup
	undo := func() {}
	if needsWhole { // before the limit, which may kill a member at once
		undo, err = l.killWholeUntilUndone()
	}
	if err == nil {
		now, err = cgroup.SetLimit(l.of.Payload, limit, l.OwnedAbove())
	}
	if err != nil {
		undo()
		return "", LimitError(limit, err)
	}
	if !slices.Contains(limited, limit.File) {
		l.of.Attributes().record(AttrLimits, strings.Join(append(limited, limit.File), " "))
	}
	return now, nil
}

// killWholeUntilUndone has the kernel kill the whole server when it is out of memory. undo is never nil.
func (l Limits) killWholeUntilUndone() (undo func(), err error) {
	before, _ := cgroup.ReadLimit(l.of.Payload, cgroup.OOMGroup) // "" before the controller is enabled
	wasWhole := before == Whole.Value                            // by a session with a limit
	_, err = cgroup.SetLimit(l.of.Payload, Whole, l.OwnedAbove())
	if err != nil || wasWhole {
		return func() {}, err
	}
	return func() {
		_ = l.of.Payload.Write(cgroup.OOMGroup, "0") // the error of the limit matters more
	}, nil
}

// LimitError returns the error of a limit with its cause and next step in words.
func LimitError(l cgroup.Limit, err error) error {
	limited := &protocol.LimitError{Step: limitStep, File: l.File, Cause: err.Error()}
	controller, _, _ := strings.Cut(l.File, ".")
	switch { // the paths are those of a group which is removed again
	case errors.Is(err, errors.ErrUnsupported):
		limited.Missing = controller
		limited.Cause = "its group has no controller " + controller
	case errors.Is(err, unix.EBUSY):
		limited.Missing = controller
		limited.Cause = "the client is in the cgroup that has the servers' groups, " +
			"and the kernel gives no controller " + controller + " to groups beside processes"
	}
	limited.Text = fmt.Sprintf("set %s: %s", l, limited.Cause)
	return limited
}

// OwnedAbove counts the directories above the payload whose subtree_control is ours: a scope, and those that
// the backend cgroup makes.
func (l Limits) OwnedAbove() int {
	switch {
	case l.of.Managed:
		return 1
	case l.of.InSession:
		parent, err := l.of.Top().Parent()
		if err != nil {
			return 0
		}
		defer parent.Close()
		return 1 + OwnedAboveDirectory(parent, l.of.Backend)
	}
	return OwnedAboveDirectory(l.of.Top(), l.of.Backend)
}

// IsDelegated reports whether systemd has delegated a directory.
func IsDelegated(dir *cgroup.Group) bool {
	trusted, _, _ := dir.Attr("trusted.delegate") // "", if it can't be read
	user, _, _ := dir.Attr("user.delegate")
	return trusted == "1" || user == "1"
}

// OwnedAboveDirectory is OwnedAbove for a directory that no manager has made: a group or a session.
func OwnedAboveDirectory(dir *cgroup.Group, from names.Backend) int {
	above, err := dir.Parent()
	if err != nil {
		return 0
	}
	defer above.Close()
	return OwnedFrom(above, from)
}

// OwnedFrom counts the directories whose subtree_control is ours, beginning with one in which a backend makes
// groups. In a directory that systemd has delegated, controllers are ours to hand down.
func OwnedFrom(above *cgroup.Group, from names.Backend) int {
	switch {
	case from == names.Cgroup:
		return ownedByCgroup(above)
	case from == names.Delegated && IsDelegated(above):
		return 1
	}
	return 0
}

// ownedByCgroup is OwnedFrom for the directory of a user, in which the backend cgroup makes groups.
func ownedByCgroup(above *cgroup.Group) int {
	slice, err := above.Parent()
	if err != nil {
		return 0
	}
	defer slice.Close()
	// systemd sets it on the groups of its units; only root can read it, and only root has such groups
	if _, ofSystemd, _ := slice.Attr("trusted.invocation_id"); ofSystemd {
		return 1
	}
	return 2
}

func (l Limits) files() []string {
	text, _, _ := l.of.Payload.Attr(AttrLimits) // none, if it can't be read
	return strings.Fields(text)
}

// now returns the present limits. A process of the user can have written the list of files.
func (l Limits) now() map[string]string {
	all := map[string]string{}
	files := l.files()
	for _, file := range files[:min(len(files), 64)] {
		if strings.ContainsRune(file, '/') {
			continue
		}
		if now, err := cgroup.ReadLimit(l.of.Payload, file); err == nil {
			all[file] = now
		}
	}
	return all
}

// Figures reads the present figures; those of a tree are zero.
func (l Limits) Figures() (f protocol.Figures) {
	if l.of.IsTree() {
		return f
	}
	f = protocol.Figures{MemoryMax: l.of.Payload.Number("memory.max"), Limits: l.now()}
	measured := cmp.Or(l.MemoryGroup(), l.of.Payload)
	f.MemoryPeak = measured.Number("memory.peak") // Linux 5.19
	whole := l.of.Payload.Number("memory.oom.group")
	f.EndsWhole = whole != nil && *whole == 1
	f.OOMKills, _ = l.counted(memoryEvents, "oom_kill")
	f.ByOOMD = l.killedByOOMD()
	l.countSession(&f)
	var at *cgroup.Group
	f.PIDsRefused, at = l.counted("pids.events", "max")
	f.PIDsMax = at.Number("pids.max")
	return f
}

// killedByOOMD reports whether systemd-oomd has killed the group. It counts its kills in an attribute, before
// it kills. It chooses groups that have no groups in them, or have memory.oom.group set.
func (l Limits) killedByOOMD() bool {
	for _, at := range slices.Compact([]*cgroup.Group{l.of.Payload, l.of.Top()}) {
		if _, counted, _ := at.Attr("user.oomd_ooms"); counted { // false, if it can't be read
			return true
		}
	}
	return false
}

// counted reads the file of the payload or, without that controller, of the directory above it. It is 0 if
// neither has the file.
func (l Limits) counted(file, key string) (n uint64, at *cgroup.Group) {
	for _, at = range slices.Compact([]*cgroup.Group{l.of.Payload, l.of.Top()}) { // one, unless it is a scope
		if b, err := at.Read(file); err == nil {
			n, _ = proc.Keyed(b, key)
			return n, at
		}
	}
	return 0, l.of.Payload
}

// MemoryFile exists where the memory of a group is counted.
const MemoryFile = "memory.current"

// MemoryGroup is the group whose memory is the server's since its start, or nil. A scope includes its guard,
// which is small.
func (l Limits) MemoryGroup() *cgroup.Group {
	if _, counted, _ := l.of.Payload.Attr(attrMemory); !counted {
		return nil
	}
	return l.of.Top()
}
