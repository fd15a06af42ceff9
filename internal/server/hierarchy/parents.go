// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hierarchy

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Everyone is no uid; it stands for all of them.
const Everyone = -1

// parentsDeepest bounds the descent into what any user may have nested.
const parentsDeepest = 64

// InParents calls the function for each directory in which there are groups. Where there can be
// none it does nothing.
func InParents(do func(here Position, parent *cgroup.Group) error) error {
	here, err := OwnPosition()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EROFS) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find our cgroup: %w", err)
	}
	defer here.Root.Close()
	var errs []error
	for parent := range here.parents() {
		errs = append(errs, do(here, parent))
	}
	return errors.Join(errs...)
}

// parents are all directories in which there are groups: slices, and whatever was delegated to
// a client. Each is open for the loop's body. There is no list of them, so the whole hierarchy is
// looked through; a directory without others in it costs an open and a stat.
func (at Position) parents() iter.Seq[*cgroup.Group] {
	return func(yield func(*cgroup.Group) bool) { eachParent(at.Root, 0, yield) }
}

func eachParent(dir *cgroup.Group, depth int, yield func(*cgroup.Group) bool) bool {
	names, err := dir.Children()
	if err != nil || depth > parentsDeepest {
		return true // it has just gone, or is not for us
	}
	groups := false
	for _, name := range names {
		if protocol.IsGroup(name) {
			groups = true
			continue
		}
		child, err := dir.Child(name)
		if err != nil {
			continue // as above
		}
		goOn := eachParent(child, depth+1, yield)
		_ = child.Close() // a directory
		if !goOn {
			return false
		}
	}
	return !groups || yield(dir)
}

// Belongs reports whether the user owns a group.
func Belongs(parent *cgroup.Group, dir string, uid int) bool {
	if uid == Everyone {
		return true
	}
	owner, err := OwnerOf(parent, dir)
	return err == nil && owner == uid
}

func OwnerOf(parent *cgroup.Group, dir string) (uid int, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(parent.FD(), dir, &st, unix.AT_SYMLINK_NOFOLLOW)
	return int(st.Uid), err
}

// Owner returns the other user that has a server of this name, or with an id of this prefix.
func Owner(arg string) (uid int, found bool) {
	here, err := OwnPosition()
	if err != nil || arg == "" {
		return 0, false
	}
	defer here.Root.Close()
	for parent := range here.parents() {
		dirs, _ := parent.Children() // none, if it has just gone
		for _, dir := range dirs {
			meant := strings.HasPrefix(protocol.IDOf(dir), arg) ||
				strings.HasPrefix(dir, protocol.DirectoryName(arg, ""))
			uid, err := OwnerOf(parent, dir)
			if protocol.IsGroup(dir) && meant && err == nil && uid != os.Getuid() {
				return uid, true
			}
		}
	}
	return 0, false
}
