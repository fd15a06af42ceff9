//go:build linux

package scope

import (
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/spawn"
)

// ownPayload is the payload as its supervisor freezes and kills it. A server of root's, or in a delegated
// tree, can have moved the supervisor into it.
type ownPayload struct {
	*cgroup.Group
	top *cgroup.Group
}

func (p ownPayload) SetFrozen(frozen bool) error {
	if frozen {
		p.stepOut()
	}
	return p.Group.SetFrozen(frozen)
}

func (p ownPayload) Kill() error {
	p.stepOut()
	return p.Group.Kill()
}

func (p ownPayload) stepOut() {
	if where, _, err := proc.ReadCgroup(0); err != nil || path.Base(where) == supervisorName {
		return
	}
	leaf, err := p.top.MkdirOpen(supervisorName, groupMode) // it can have been removed as well
	if err != nil {
		return // the launcher, or a sweep, ends the group
	}
	_ = leaf.Enter() // as above
	_ = leaf.Close() // a directory
}

func (g *controlGroup) birthplace() *cgroup.Group { return g.payload }
func (g *controlGroup) guard() int                { return -1 }

// nested returns the directory of the group that pid supervises or, when it is about to
// be removed, leavingName; "" if it is no supervisor beside us.
func (g *controlGroup) nested(pid int) string {
	where, _, err := proc.ReadCgroup(pid)
	if err != nil {
		return ""
	}
	own, _, err := proc.ReadCgroup(0)
	group := path.Dir(where)
	if err == nil && where == path.Join(path.Dir(path.Dir(own)), leavingName) {
		return leavingName
	}
	if err != nil || path.Base(where) != supervisorName || path.Dir(group) != path.Dir(path.Dir(own)) || group == path.Dir(own) {
		return ""
	}
	payload, err := g.parent.Child(path.Join(path.Base(group), payloadName))
	if err != nil {
		return ""
	}
	defer payload.Close()
	if _, armed, _ := payload.Attr(attrArmed); !armed {
		return ""
	}
	return path.Base(group)
}

func (g *controlGroup) beside() (parent *cgroup.Group, own string) { return g.parent, g.dir }

func (g *controlGroup) elsewhere(pid int) bool {
	where, _, err := proc.ReadCgroup(pid)
	return err == nil && where != payloadPath()
}

func payloadPath() string {
	own, _, err := proc.ReadCgroup(0)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(own, supervisorName) + payloadName
}

// memoryPeak is nil where the kernel does not count it (no memory controller, before
// Linux 5.19).
func (g *controlGroup) memoryPeak() *uint64 {
	for _, at := range []*cgroup.Group{g.payload, g.memoryGroup()} {
		if at == nil {
			continue
		}
		if n, ok := at.Number("memory.peak"); ok {
			return &n
		}
	}
	return nil
}

func (g *controlGroup) memoryMax() *uint64 { return g.number("memory.max") }

func (g *controlGroup) memoryMet() bool {
	b, err := g.payload.Read("memory.events")
	times, _ := proc.Keyed(b, "max")
	return err == nil && times > 0
}

func (g *controlGroup) oomKills() uint64 {
	n, _ := g.counted("memory.events", "oom_kill")
	return n
}

func (g *controlGroup) pidsRefused() (times uint64, limit *uint64) {
	times, at := g.counted("pids.events", "max")
	if n, ok := at.Number("pids.max"); ok {
		limit = &n
	}
	return times, limit
}

func (g *controlGroup) pressure() map[string]Pressure { return pressureOf(g.payload) }

// counted looks above the payload too, which has no file of its own unless somebody has handed
// the controller down to it. It is 0 if the kernel does not count.
func (g *controlGroup) counted(file, key string) (n uint64, at *cgroup.Group) {
	for _, at = range []*cgroup.Group{g.payload, g.top} {
		if b, err := at.Read(file); err == nil {
			n, _ = proc.Keyed(b, key)
			return n, at
		}
	}
	return 0, g.payload
}

func (g *controlGroup) stopGrace() (time.Duration, bool) {
	text, there, err := g.payload.Attr(attrStop)
	if err != nil || !there {
		return 0, false
	}
	grace, err := ParseGrace(text)
	return grace, err == nil
}

func (g *controlGroup) note(notes []string) {
	if text := noteText(notes); text != "" {
		_ = g.payload.SetAttr(attrNotes, text) // for people only
	}
}

// notesMost fits an attribute beside others, and an answer.
const notesMost = 1000

func noteText(notes []string) string {
	text := strings.Join(notes, "\n")
	return strings.ToValidUTF8(text[:min(len(text), notesMost)], "")
}

func (g *controlGroup) ending(why Cause) {
	_ = g.payload.SetAttr(attrEnding, string(why)) // for people only
}

// leave removes the group when we have left it. Until then payload is there, by which a
// supervisor around us knows what we are. What can't be removed now, a sweeper removes.
func (g *controlGroup) leave() {
	if g.managed {
		return // systemd does
	}
	_ = g.payload.RemoveChildren()
	leaf, err := g.parent.MkdirOpen(leavingName, groupMode)
	if err != nil {
		return
	}
	defer leaf.Close()
	thawOurs(leaf)
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return
	}
	r := spawn.Remover{Leaf: leaf, PidFD: self, Dirs: []spawn.Dir{
		{Parent: g.top, Name: payloadName}, {Parent: g.top, Name: supervisorName}, {Parent: g.parent, Name: g.dir},
	}}
	_ = r.Start() // if it can't, the launcher removes the group
}
