//go:build linux

package scope

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/tree"
)

// A server that its client has started is not below its supervisor, so who has moved to
// another cgroup does not come home. It is found by a mark that all members have.

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

// mark marks the members that there are; what they start later has it from them.
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

func (g *controlGroup) marked() *tree.Tree { return &tree.Tree{Mark: markOf(g.id)} }

// mark is for a server that the client has started.
func (s *supervisor) mark() {
	g, ours := s.group.(*controlGroup) // a tree takes in nobody who is there already
	if !ours {
		return
	}
	if err := g.mark(); err != nil {
		s.notes = append(s.notes, "who moves to another cgroup is not found: "+oneLine(err))
		g.note(s.notes)
	}
}

// endMarked ends members that were marked, and did not come home.
func (s *supervisor) endMarked() {
	g, ours := s.group.(*controlGroup)
	if !ours || !s.found() {
		return
	}
	moved := g.marked()
	res, err := freeze.Stop{Target: moved, Frozen: func() {
		pids, _ := moved.Members() // for people only
		for _, pid := range pids[:min(len(pids), inspectFew)] {
			s.killed = append(s.killed, s.observe(pid))
		}
	}}.Run()
	s.course.result.Stuck = append(s.course.result.Stuck, res.Stuck...)
	if err != nil {
		s.note("who has moved to another cgroup could not be looked for: " + oneLine(err))
	}
}
