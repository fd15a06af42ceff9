// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// List finds the gateways of a user, or of everyone for -1, by the memory that their watchers have
// open. What is in it was written by processes of that user, and may be anything.
func List(uid int) ([]Status, error) {
	pids, err := everybody()
	if err != nil {
		return nil, err
	}
	var all []Status
	seen := map[uint64]bool{} // a watcher and its standby share one
	for _, pid := range pids {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			continue
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || uid >= 0 && int(st.Uid) != uid || !isWatcher(pid) {
			continue
		}
		if s, ino, err := statusOf(pid); err == nil && !seen[ino] {
			seen[ino] = true
			s.UID, s.Watcher = int(st.Uid), pid
			all = append(all, s)
		}
	}
	return all, nil
}

func isWatcher(pid int) bool {
	argv := arguments(pid)
	return len(argv) > 1 && argv[0] == "mcpscope" && argv[1] == WatchCommand
}

// statusOf reads the board that a process has open.
func statusOf(pid int) (s Status, ino uint64, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		return s, 0, err
	}
	for _, name := range names {
		file := dir + "/" + name.Name()
		if to, err := os.Readlink(file); err != nil || !strings.HasPrefix(to, "/memfd:"+boardName+" ") {
			continue
		}
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return s, 0, err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size < int64(entriesAt) {
			return s, 0, unix.EBADMSG
		}
		mem := make([]byte, entriesAt)
		if _, err := unix.Pread(fd, mem, 0); err != nil {
			return s, 0, err
		}
		s, err = parseStatus(mem)
		return s, st.Ino, err
	}
	return s, 0, unix.ENOENT
}
