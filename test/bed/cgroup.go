// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// Write puts text into an existing file. os.WriteFile would add O_CREATE, which
// turns a missing interface file into EACCES, and would park on EAGAIN.
func Write(file, text string) error {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return fmt.Errorf("write %q to %s: %w", text, file, err)
	}
	return nil
}

// dirs lists dir and all groups below it, parents first.
func dirs(dir string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we walk: nothing left there
		}
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	return all, err
}

// pids lists every process in dir and below. In a threaded group cgroup.procs
// can't be read (EOPNOTSUPP); its processes show in the nearest domain above.
func pids(dir string) ([]int, error) {
	groups, err := dirs(dir)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, group := range groups {
		some, err := ReadInts(filepath.Join(group, "cgroup.procs"))
		switch {
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV), errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			all = append(all, some...)
		}
	}
	return all, nil
}

// Empty reports whether no live process is in the group at path or below it. A
// group that does not exist is empty.
func Empty(path string) (bool, error) {
	events, err := unix.Open(filepath.Join(path, "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("open cgroup.events of %s: %w", path, err)
	}
	defer unix.Close(events)
	return unpopulated(events)
}

// unpopulated also makes the descriptor wait for the next change: until it has
// been read, poll reports a change at once, for ever.
func unpopulated(events int) (bool, error) {
	text := make([]byte, 128)
	n, err := unix.Pread(events, text, 0)
	if errors.Is(err, unix.ENODEV) {
		return true, nil
	}
	return err == nil && bytes.Contains(text[:n], []byte("populated 0\n")), err
}

// WaitEmpty returns when the group at path is empty, or with an error after
// limit. The kernel holds back its notification for up to 10 ms after the one
// before, so the file is also read again after pauses that grow from 0.1 ms.
func WaitEmpty(path string, limit time.Duration) error {
	deadline := pace.Now().Add(limit)
	events, err := unix.Open(filepath.Join(path, "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open cgroup.events of %s: %w", path, err)
	}
	defer unix.Close(events)
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if empty, err := unpopulated(events); empty || err != nil {
			return err
		}
		left := pace.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("%s is populated after %v", path, limit)
		}
		ts := unix.NsecToTimespec(int64(min(pause, left)))
		_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, &ts, nil) // EINTR: read again
	}
}

// Destroy kills everything in the group at path and below, then removes it.
func Destroy(path string) error {
	if err := Kill(path, 10*time.Second); err != nil {
		return err
	}
	groups, err := dirs(path)
	if err != nil {
		return err
	}
	for i := len(groups) - 1; i >= 0; i-- {
		if err := unix.Rmdir(groups[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", groups[i], err)
		}
	}
	return nil
}

// Kill ends everything in the group at path and below. cgroup.kill (5.14) spares
// a process whose first thread has exited while others live, so each listed one
// gets a SIGKILL of its own as well, again and again until none is left.
func Kill(path string, limit time.Duration) error {
	deadline := pace.Now().Add(limit)
	for {
		_ = Write(filepath.Join(path, "cgroup.kill"), "1") // missing on old kernels and on the root
		if err := killListed(path); err != nil {
			return err
		}
		err := WaitEmpty(path, 50*time.Millisecond)
		if err == nil || pace.Until(deadline) <= 0 {
			return err
		}
	}
}

// killListed opens each process before it looks again what is in the group: a pid that
// was given to a stranger in between is then not listed any more.
func killListed(path string) error {
	listed, err := pids(path)
	if err != nil {
		return err
	}
	held := make(map[int]int)
	for _, pid := range listed {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil { // otherwise gone already
			held[pid] = fd
			defer unix.Close(fd)
		}
	}
	again, err := pids(path)
	for _, pid := range again {
		if fd, ok := held[pid]; ok {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may die by itself meanwhile
		}
	}
	return err
}
