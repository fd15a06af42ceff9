// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// foreignMost bounds the directories that root reads in a foreign tree, with groups and all in them: its user
// can make any number. A user's manager has about a hundred, and a thousand servers have three each. A list
// reads so many in half a second, and so many groups in less than one.
const foreignMost = 4000

// foreignTree is a directory of another user, with all below it. Only root can have handed it over, so no
// user gets a second bound by making directories, or by giving them to other user ids. The directories beyond
// the bound hide servers of that user, and of those who run theirs in its tree, which it could also kill.
type foreignTree struct {
	uid   int
	left  int // how many directories may still be read
	isCut bool
}

// isForeign reports whether a directory outside of any foreign tree is the top of one. Only root has commands
// that look for the servers of other users.
func isForeign(dir *cgroup.Group) bool { return os.Getuid() == 0 && ownerOf(dir) != 0 }

func newForeignTree(top *cgroup.Group) *foreignTree {
	return &foreignTree{uid: ownerOf(top), left: foreignMost}
}

func ownerOf(dir *cgroup.Group) int {
	var st unix.Stat_t
	_ = unix.Fstat(dir.FD(), &st) // it can't fail: the directory is open
	return int(st.Uid)
}

// childrenOf lists those of the directories below dir that may be read. A nil tree has no bound.
func (t *foreignTree) childrenOf(dir *cgroup.Group) ([]string, error) {
	if t == nil {
		return dir.Children()
	}
	children, err := dir.FirstChildren(t.left + 1)
	if len(children) > t.left {
		t.isCut = true
		children = children[:t.left]
	}
	t.left -= len(children)
	return children, err
}

// withRoomFor returns those of the groups or sessions in a directory that may be read with all below them. A
// list reads the processes of each.
func (t *foreignTree) withRoomFor(parent *cgroup.Group, dirs []string) []string {
	if t == nil {
		return dirs
	}
	return slices.DeleteFunc(dirs, func(name string) bool {
		stat, _ := parent.Read(name + "/cgroup.stat") // none, if it was removed
		below, _ := proc.Keyed(stat, "nr_descendants")
		if below > uint64(t.left) {
			t.isCut = true
			return true
		}
		t.left -= int(below)
		return false
	})
}

// UnreadError is about a foreign tree with too many directories. All other servers were found.
type UnreadError struct {
	UID int
	Dir string
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("user %d has more than %d directories in %s: servers in the others are not found",
		e.UID, foreignMost, e.Dir)
}

// IgnoreUnread removes what is about foreign trees from an error, and keeps what that was joined with.
func IgnoreUnread(err error) error {
	if !errors.As(err, new(*UnreadError)) {
		return err
	}
	joined, isJoined := err.(interface{ Unwrap() []error })
	if !isJoined {
		return nil
	}
	var others []error
	for _, one := range joined.Unwrap() {
		others = append(others, IgnoreUnread(one))
	}
	return errors.Join(others...)
}
