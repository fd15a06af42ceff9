// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hierarchy

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Everyone is no uid; it stands for all of them.
const Everyone = -1

// parentsDeepest bounds the descent into what any user may have nested.
const parentsDeepest = 64

// InParents calls the function for each directory in which there are groups: slices, and whatever was
// delegated to a client. Where there can be none it does nothing. There is no list of them, so the whole
// hierarchy is looked through; a directory without others in it costs an open and a stat.
func InParents(do func(here Position, parent *cgroup.Group) error) error {
	here, err := OwnPosition()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EROFS) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find our cgroup: %w", err)
	}
	defer here.Root.Close()
	return here.inParents(here.Root, 0, do)
}

func (at Position) inParents(dir *cgroup.Group, depth int, do func(Position, *cgroup.Group) error) error {
	names, err := dir.Children()
	if err != nil || depth > parentsDeepest {
		return nil // it has just gone, or is not for us
	}
	var errs []error
	for _, name := range names {
		if protocol.IsGroup(name) {
			continue
		}
		if child, err := dir.Child(name); err == nil { // as above
			errs = append(errs, at.inParents(child, depth+1, do))
			_ = child.Close() // a directory
		}
	}
	if slices.ContainsFunc(names, protocol.IsGroup) {
		errs = append(errs, do(at, dir))
	}
	return errors.Join(errs...)
}

// Groups lists the groups in a directory that belong to a user, or to Everyone. It lists nothing for a
// directory that was removed.
func Groups(parent *cgroup.Group, uid int) ([]string, error) {
	names, err := parent.Children()
	if protocol.IsGone(err) {
		return nil, nil
	}
	return slices.DeleteFunc(names, func(name string) bool {
		var st unix.Stat_t
		return !protocol.IsGroup(name) || uid != Everyone &&
			(unix.Fstatat(parent.FD(), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || int(st.Uid) != uid)
	}), err
}
