// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// visitor is called for a directory of a subtree: enter before what is below it,
// leave after, with the parent's descriptor and the name in it. Either may be nil.
type visitor struct {
	enter func(fd int) error
	leave func(parent int, name string) error
}

// level is one directory on the way down from the top of a walk.
type level struct {
	name string
	todo []string
}

// walk goes through the subtree below g, g itself included for enter and not for
// leave. It holds two descriptors however deep the tree is (up goes by ".."), so
// that a payload can't exhaust them by nesting. Directories that vanish meanwhile
// are passed over.
func (g *Group) walk(v visitor) error {
	stack, err := enter(g.fd, "", nil, v)
	if err != nil || len(stack[0].todo) == 0 {
		return err // as a rule there is nothing below
	}
	cur, err := unix.FcntlInt(uintptr(g.fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(cur) }()
	for err == nil {
		top := &stack[len(stack)-1]
		switch {
		case len(top.todo) > 0:
			cur, stack, err = down(cur, stack, v)
		case len(stack) == 1:
			return nil
		default:
			cur, stack, err = up(cur, stack, v)
		}
	}
	return err
}

func enter(fd int, name string, stack []level, v visitor) ([]level, error) {
	if v.enter != nil {
		if err := v.enter(fd); err != nil {
			return stack, err
		}
	}
	subs, err := subdirs(fd)
	if gone(err) {
		err = nil
	}
	return append(stack, level{name: name, todo: subs}), err
}

func down(cur int, stack []level, v visitor) (int, []level, error) {
	top := &stack[len(stack)-1]
	name := top.todo[len(top.todo)-1]
	top.todo = top.todo[:len(top.todo)-1]
	fd, err := openDir(cur, name)
	if gone(err) {
		return cur, stack, nil
	}
	if err != nil {
		return cur, stack, err
	}
	_ = unix.Close(cur) // read-only directory
	stack, err = enter(fd, name, stack, v)
	return fd, stack, err
}

func up(cur int, stack []level, v visitor) (int, []level, error) {
	parent, err := openDir(cur, "..")
	if err != nil {
		return cur, stack, err
	}
	_ = unix.Close(cur) // read-only directory
	name := stack[len(stack)-1].name
	if v.leave != nil {
		err = v.leave(parent, name)
	}
	return parent, stack[:len(stack)-1], err
}

// gone tells whether err says that a cgroup was removed: ENOENT for a name or a
// removed directory, ENODEV for a file of one that was open.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}

// subdirs lists the directories in fd. kernfs counts them in st_nlink, which
// spares reading some sixty file names in the usual case that there is none.
func subdirs(fd int) ([]string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Nlink <= 2 {
		return nil, nil
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	var names []string
	buf := make([]byte, 8192)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return names, err
		}
		names = appendDirs(names, buf[:n])
	}
}

// appendDirs picks the directories out of a getdents64(2) buffer.
func appendDirs(names []string, buf []byte) []string {
	const reclen, typ, name = 16, 18, 19 // offsets in struct linux_dirent64
	for len(buf) > name {
		size := int(binary.NativeEndian.Uint16(buf[reclen:]))
		if size <= name || size > len(buf) {
			return names
		}
		entry := buf[name:size]
		for i, c := range entry {
			if c == 0 {
				entry = entry[:i]
				break
			}
		}
		if s := string(entry); buf[typ] == unix.DT_DIR && s != "." && s != ".." {
			names = append(names, s)
		}
		buf = buf[size:]
	}
	return names
}

// Children lists the names of the directories directly below g.
func (g *Group) Children() ([]string, error) {
	fd, err := openDir(g.fd, ".")
	if err == nil {
		defer unix.Close(fd)
		var names []string
		if names, err = subdirs(fd); err == nil {
			return names, nil
		}
	}
	return nil, fmt.Errorf("list cgroup %q: %w", g.path, err)
}

// Remove removes the directory name below g and all below that, children first.
// It is no error if it is gone already. A group that still has a member gives
// EBUSY; nothing is killed here.
func (g *Group) Remove(name string) error {
	child, err := g.Child(name)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer child.Close()
	if err := child.walk(visitor{leave: rmdir}); err != nil {
		return fmt.Errorf("remove cgroups below %q: %w", child.path, err)
	}
	return g.RemoveLeaf(name)
}

// RemoveLeaf removes the directory name below g. It is no error if it is gone already. EBUSY says that
// it has a member, or a directory below it.
func (g *Group) RemoveLeaf(name string) error {
	if err := rmdir(g.fd, name); err != nil {
		return fmt.Errorf("remove cgroup %q: %w", path.Join(g.path, name), err)
	}
	return nil
}

func rmdir(parent int, name string) error {
	err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if gone(err) {
		return nil
	}
	return err
}
