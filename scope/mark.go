//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/tree"
)

// A process that has moved to another cgroup becomes a child of its supervisor when its parent
// dies; but not that of a server which the client has started, nor one that has a parent in another
// pid namespace, nor any when the supervisor was killed. All these are found by a mark that all
// members inherit.

// markOf is made of the id alone, so that everybody who ends a group knows it.
func markOf(id string) tree.Mark {
	var bits uint64
	for _, letter := range id {
		at := strings.IndexRune(idLetters, letter)
		if at < 0 {
			return 0 // not an id of ours
		}
		bits = bits*uint64(len(idLetters)) + uint64(at)
	}
	return tree.NewMark(bits)
}

func (g *controlGroup) mark() error {
	marked := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		pids, err := g.payload.Members()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if marked[pid] {
				continue
			}
			if err := g.markOne(pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			marked[pid], fresh = true, true
		}
	}
	return nil
}

func (g *controlGroup) markOne(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	defer unix.Close(fd)
	if where, _, err := proc.ReadCgroup(pid); err != nil || !strings.HasPrefix(where+"/", payloadPath()+"/") {
		return unix.ESRCH // it has ended or left, and the pid may be another's
	}
	return markOf(g.id).Put(pid, fd)
}

// endWithMarked ends all of the group, a member that has moved to the directory above the payload
// too, and then who has left it with the mark.
func (g *controlGroup) endWithMarked(s freeze.Stop) (freeze.Result, error) {
	s.Target = g.top
	res, err := s.Run()
	moved, markErr := freeze.Stop{Target: g.marked()}.Run()
	res.Stuck = append(res.Stuck, moved.Stuck...)
	return res, errors.Join(err, markErr)
}

// marked are the processes that carry the group's mark. An id is the name of a directory that
// anyone can make below a cgroup of theirs, and a mark can be put on anything of theirs; so the
// owner of the group decides whose processes count, and no member of another server's group does.
func (g *controlGroup) marked() *tree.Tree {
	return &tree.Tree{Mark: markOf(g.id), Owner: g.owner(), Spare: inAnotherGroup(g.top)}
}

// owner is the user who made the group; nobody's processes count where that can't be read.
func (g *controlGroup) owner() int {
	var st unix.Stat_t
	if unix.Fstat(g.payload.FD(), &st) != nil {
		return -1
	}
	return int(st.Uid)
}

func (g *launchedTree) marked() *tree.Tree { return markedTree(g.id) }
func (g *ownedTree) marked() *tree.Tree    { return markedTree(g.id) }

func markedTree(id string) *tree.Tree {
	return &tree.Tree{Mark: markOf(id), Owner: os.Getuid(), Spare: inAnotherGroup(nil)}
}

// inAnotherGroup tells of a process whether it is in a server's group that is in use, and that is
// not own. What can't be found out counts as yes: such a process is not ours to signal.
func inAnotherGroup(own *cgroup.Group) func(proc.Stat) bool {
	return func(st proc.Stat) bool {
		where, _, err := proc.ReadCgroup(st.PID)
		if errors.Is(err, proc.ErrNoCgroup2) || errors.Is(err, proc.ErrGone) {
			return false
		}
		if err != nil || strings.HasPrefix(where, "/..") {
			return true
		}
		if !strings.Contains(where, "/"+groupPrefix) {
			return false
		}
		here, err := ownPosition()
		if err != nil {
			return true
		}
		defer here.root.Close()
		return belowAnother(here.root, own, where)
	}
}

// belowAnother looks at each directory on the way to where.
func belowAnother(root, own *cgroup.Group, where string) bool {
	for dir := where; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if !isGroup(path.Base(dir)) {
			continue
		}
		g := &controlGroup{dir: path.Base(dir)}
		var err error
		if g.top, err = root.Child(strings.TrimPrefix(dir, "/")); err != nil {
			continue // it has just gone, and the process with it
		}
		another := (own == nil || !g.top.Same(own)) && g.inUse()
		g.close()
		if another {
			return true
		}
	}
	return false
}

// inUse tells whether somebody guards the group: it is armed and locked, and a supervisor is in it.
func (g *controlGroup) inUse() bool {
	var err error
	if g.payload, err = g.top.Child(payloadName); err != nil {
		return false
	}
	if g.supervisor, err = g.top.Child(supervisorName); err != nil {
		return false
	}
	_, armed, _ := g.payload.Attr(attrArmed)
	return armed && populated(g.supervisor) && errors.Is(g.payload.TryLock(unix.LOCK_SH), unix.EWOULDBLOCK)
}

// mark is for a server that the client has started.
func (s *supervisor) mark() {
	if err := s.group.mark(); err != nil {
		s.notes = append(s.notes, "who moves to another cgroup is not found: "+oneLine(err))
		s.group.note(s.notes)
	}
}

// endMarked ends members that have left the group and are no descendants of ours: of a server that
// the client has started, or by way of another pid namespace.
func (s *supervisor) endMarked() {
	moved := s.group.marked()
	res, err := freeze.Stop{Target: moved, Frozen: func() {
		pids, _ := moved.Members() // for people only
		for _, pid := range pids[:min(len(pids), inspectFew)] {
			s.killed = append(s.killed, s.observe(pid))
		}
	}}.Run()
	s.course.result.Stuck = append(s.course.result.Stuck, res.Stuck...)
	if err != nil {
		s.note("processes that have moved to another cgroup could not be looked for: " + oneLine(err))
	}
}
