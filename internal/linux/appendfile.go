// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// linksMost is what the kernel follows, too (path_resolution(7)).
const linksMost = 40

const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK

// OpenAppend opens a file, which is made with mode 0600 if there is none. It follows a symbolic link in a
// sticky directory that everybody may write to, such as /tmp, only if it belongs to the calling user or
// to the owner of the directory, as the kernel does where fs.protected_symlinks is 1 (proc(5)): EACCES.
// It does not wait for the reader of a FIFO: without one it is ENXIO. A write to the descriptor blocks.
func OpenAppend(path string) (int, error) {
	fd, err := open(path)
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func open(path string) (int, error) {
	at, err := start(path)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(at) }()
	todo := strings.Split(path, "/")
	for links := 0; ; {
		part := todo[0]
		todo = todo[1:]
		if len(todo) == 0 {
			fd, err := unix.Openat(at, part, flags|unix.O_NOFOLLOW, 0o600)
			if err != unix.ELOOP || part == "" {
				return fd, err
			}
		}
		if part == "" {
			continue
		}
		next, target, err := step(at, part)
		if err != nil {
			return -1, err
		}
		switch {
		case target == "" && len(todo) == 0: // a link of /proc, to what has no path
			defer unix.Close(next)
			return unix.Open(fmt.Sprintf("/proc/self/fd/%d", next), flags&^unix.O_CREAT, 0)
		case target == "":
			_ = unix.Close(at)
			at = next
			continue
		}
		if links++; links > linksMost {
			return -1, unix.ELOOP
		}
		todo = append(strings.Split(target, "/"), todo...)
		if strings.HasPrefix(target, "/") {
			_ = unix.Close(at)
			if at, err = start(target); err != nil {
				return -1, err
			}
		}
	}
}

// start is the directory that a path begins at.
func start(path string) (int, error) {
	dir := "."
	if strings.HasPrefix(path, "/") {
		dir = "/"
	}
	return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// step opens what part names in a directory or, for a link that may be followed, reads where it leads.
func step(at int, part string) (fd int, target string, err error) {
	fd, err = unix.Openat(at, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", err
	}
	var dir, link unix.Stat_t
	if err = unix.Fstat(at, &dir); err == nil {
		err = unix.Fstat(fd, &link)
	}
	if err != nil || link.Mode&unix.S_IFMT != unix.S_IFLNK {
		return fd, "", err
	}
	defer unix.Close(fd)
	if !follows(dir, link) {
		return -1, "", unix.EACCES
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC {
		fd, err = unix.Openat(at, part, unix.O_PATH|unix.O_CLOEXEC, 0) // its text need not be a path
		return fd, "", err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return -1, string(buf[:max(n, 0)]), err
}

// follows is the rule of fs.protected_symlinks.
func follows(dir, link unix.Stat_t) bool {
	const open = unix.S_ISVTX | unix.S_IWOTH
	return dir.Mode&open != open || int(link.Uid) == os.Geteuid() || link.Uid == dir.Uid
}
