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

func (g *controlGroup) birthplace() spawn.Group { return g.payload }
func (g *controlGroup) guard() int              { return -1 }

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
