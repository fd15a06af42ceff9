// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ReadStat reads /proc/PID/stat.
func ReadStat(pid int) (Stat, error) {
	b, err := readPID(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(b)
}

// Comm returns the name of a process, which it chooses itself: at most 15 bytes of any kind.
func Comm(pid int) (string, error) {
	b, err := readPID(pid, "comm")
	return strings.TrimSuffix(string(b), "\n"), err
}

// ReadStatus reads /proc/PID/status.
func ReadStatus(pid int) (Status, error) {
	b, err := readPID(pid, "status")
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(b)
}

// FileLocks reads the soft limit RLIMIT_LOCKS in /proc/PID/limits, which is readable for all users;
// prlimit(2) is not. ok is false for "unlimited".
func FileLocks(pid int) (soft uint64, ok bool) {
	b, _ := readPID(pid, "limits") // none, if it has exited
	return parseFileLocks(b)
}

// ReadCgroup returns the path of a process in the cgroup2 hierarchy, see [ParseCgroup]; pid 0 means our own
// process. The error is [ErrNoCgroup2] without such a hierarchy.
func ReadCgroup(pid int) (string, error) {
	b, err := readCgroup(pid)
	if err != nil {
		return "", err
	}
	path, ok := ParseCgroup(b)
	if !ok {
		return "", fmt.Errorf("find cgroup of pid %d: %w", pid, ErrNoCgroup2)
	}
	return path, nil
}

func readCgroup(pid int) ([]byte, error) {
	if pid == 0 {
		// not by number: "self" fails in the /proc of another pid namespace
		return read("/proc/self/cgroup", NoLimit)
	}
	return readPID(pid, "cgroup")
}

// ReadCgroup2Mounts lists the visible cgroup2 mounts; see [ParseCgroup2Mounts].
func ReadCgroup2Mounts() ([]Mount, error) {
	b, err := read("/proc/self/mountinfo", NoLimit)
	if err != nil {
		return nil, err
	}
	return ParseCgroup2Mounts(b), nil
}

// Cmdline returns at most max bytes of the arguments of a process for display, with '?' for bytes that are no
// text or that control a terminal. It is empty for a zombie, for a kernel thread and during an execve
// (os/exec's Start returns there). A process can rewrite its arguments.
//
// The kernel reads them from the process's memory. If that is backed by a file system of the process, the
// call can hang: do not call it in the stop sequence.
func Cmdline(pid, max int) (string, error) {
	b, err := readPIDLimit(pid, "cmdline", max)
	return oneLine(b), err
}

// Arguments returns the arguments of a process within the first max bytes, see Cmdline; nil if it has exited.
func Arguments(pid, max int) []string {
	b, _ := readPIDLimit(pid, "cmdline", max)
	return ended(b)
}

// ended splits texts that each end with a zero.
func ended(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Wchan returns the kernel function in which a process waits: a hint why it does not die. It is "" while the
// process runs, and without the right to ptrace.
func Wchan(pid int) string {
	b, err := readPID(pid, "wchan")
	if err != nil || string(b) == "0" {
		return ""
	}
	return oneLine(b)
}

// DescriptorPath returns the file of a process's descriptor in /proc.
func DescriptorPath(pid, number int) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, number) }

// Environ returns the environment that this process was started with: byte for byte, in that order and with
// duplicates. os.Environ loses all of these.
func Environ() ([]string, error) {
	b, err := read("/proc/self/environ", NoLimit)
	return ended(b), err
}

func readPID(pid int, file string) ([]byte, error) {
	return readPIDLimit(pid, file, NoLimit)
}

func readPIDLimit(pid int, file string, limit int) ([]byte, error) {
	if err := checkPID(pid); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	b, err := read(pidPath(pid)+"/"+file, limit)
	return b, markGone(pid, err)
}

func pidPath(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// checkPID refuses 0: in cgroup.procs and as a parent it is a process outside our pid namespace, not our own
// process.
func checkPID(pid int) error {
	if pid <= 0 {
		return fmt.Errorf("pid %d: %w", pid, unix.EINVAL)
	}
	return nil
}

// markGone adds ErrGone to the error if the process has exited.
//
// ESRCH proves it (the process exited after the open). ENOENT does not: it also occurs without /proc, with
// hidepid=2 for processes of other users, and for a file that this kernel does not have. Signal 0 reaches a
// process in all three cases.
func markGone(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
	case errors.Is(err, unix.ENOENT) && errors.Is(unix.Kill(pid, 0), unix.ESRCH):
	default:
		return err
	}
	return fmt.Errorf("%w: %w", ErrGone, err)
}

// NoLimit is no limit of bytes.
const NoLimit = math.MaxInt

// read reads a file of /proc, limit bytes of it at most.
func read(path string, limit int) ([]byte, error) {
	b, err := ReadAt(unix.AT_FDCWD, path, limit)
	if err != nil {
		err = fmt.Errorf("read %s: %w", path, err)
	}
	return b, err
}

// ReadAt reads a file below an open directory, limit bytes of it at most. The error is an errno.
//
// os.File would register each descriptor with the runtime's poller and make pollable files (mountinfo)
// non-blocking. The size in stat(2) is 0, and one read may return only a page.
func ReadAt(dir int, path string, limit int) ([]byte, error) {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 0, 512)
	for len(buf) < limit {
		buf = slices.Grow(buf, 1)
		n, err := unix.Read(fd, buf[len(buf):min(cap(buf), limit)])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}
