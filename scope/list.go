//go:build linux

package scope

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/systemd"
)

// errOthers is what another user's servers are to anyone but root.
var errOthers = fmt.Errorf("look at other users' servers: %w", unix.EPERM)

// List finds the servers of a user, or of Everyone, the oldest first. It reads the
// kernel alone, so what it says was true a moment ago; a server that ends meanwhile is
// left out. Each has to be closed.
func List(uid int) ([]*Listed, error) {
	return list(uid, func(*Listed) bool { return true })
}

// list leaves out who is not wanted, before it is known what those do.
func list(uid int, wanted func(*Listed) bool) ([]*Listed, error) {
	if uid != os.Getuid() && os.Getuid() != 0 {
		return nil, errOthers
	}
	all := listTrees(uid, wanted)
	err := inParents(func(here position, parent *cgroup.Group) error {
		found, err := listIn(here, parent, uid)
		for _, s := range found {
			if wanted(s) {
				all = append(all, s)
			} else {
				s.Close()
			}
		}
		return err
	})
	slices.SortFunc(all, func(a, b *Listed) int { return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.ID, b.ID)) })
	return all, err
}

func listIn(at position, parent *cgroup.Group, uid int) ([]*Listed, error) {
	dirs, err := parent.Children()
	if err != nil {
		return nil, ignoreGone(err)
	}
	in := listing{parent: parent, above: strings.TrimPrefix(parent.Path(), at.root.Path()), namespace: pidNamespace()}
	in.made, in.managed = backendOf(in.above, false), backendOf(in.above, true)
	var all []*Listed
	for _, dir := range dirs {
		if !isGroup(dir) || !belongs(parent, dir, uid) {
			continue
		}
		s, err := in.one(dir)
		if err != nil {
			if ignoreGone(err) != nil {
				return all, err
			}
			continue
		}
		if s != nil {
			all = append(all, s)
		}
	}
	return all, nil
}

// listing is what all groups of one directory have in common: of a thousand it is found out
// once.
type listing struct {
	parent        *cgroup.Group
	above         string  // its path below the mount
	made, managed Backend // of a group that we made, of a scope
	namespace     uint64  // our pid namespace
}

// one returns nil for a directory that is no server's, or not yet. It opens no more than has to
// be held, for there may be more servers than we may have descriptors.
func (in *listing) one(dir string) (*Listed, error) {
	g := &controlGroup{id: idOf(dir), dir: dir, managed: strings.HasSuffix(dir, scopeSuffix)}
	var err error
	if g.top, err = in.parent.Child(dir); err != nil {
		return nil, err
	}
	g.payload, err = g.top.Child(payloadName)
	armed := false
	if err == nil {
		_, armed, err = g.payload.Attr(attrArmed)
	}
	s := &Listed{ID: g.id, group: g, Group: in.above + "/" + dir, Backend: in.made}
	if g.managed {
		s.Backend, s.Unit = in.managed, dir
	}
	if err == nil && armed {
		err = s.read(in.namespace)
	}
	ended := err == nil && armed && g.managed && s.State == Orphaned && !populated(g.top) // systemd is about to remove it
	if err != nil || !armed || ended {
		s.Close()
		return nil, err
	}
	return s, nil
}

// backendOf tells by the directory of a group where it came from.
func backendOf(above string, managed bool) Backend {
	_, kind, _ := systemd.UnitOf(above, os.Getuid())
	switch {
	case managed && (kind == systemd.User || strings.Contains(above, "/user@")):
		return SystemdUser
	case managed:
		return SystemdSystem
	case strings.HasPrefix(above+"/", "/"+sliceName+"/"):
		return Cgroup
	}
	return Delegated
}
