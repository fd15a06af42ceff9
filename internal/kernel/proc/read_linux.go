// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
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

// SoftLimit reads one of /proc/PID/limits, which is readable for all users; prlimit(2) is not.
func SoftLimit(pid int, name string) (soft uint64, ok bool) {
	b, err := readPID(pid, "limits")
	if err != nil {
		return 0, false
	}
	return ParseLimit(b, name)
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
		return read("/proc/self/cgroup", noLimit)
	}
	return readPID(pid, "cgroup")
}

// ReadCgroup2Mounts lists the visible cgroup2 mounts; see [ParseCgroup2Mounts].
func ReadCgroup2Mounts() ([]Mount, error) {
	b, err := read("/proc/self/mountinfo", noLimit)
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

// Environ returns the environment that this process was started with: byte for byte, in that order and with
// duplicates. os.Environ loses all of these.
func Environ() ([]string, error) {
	b, err := read("/proc/self/environ", noLimit)
	return ended(b), err
}

// PIDOf returns the pid of the process behind a pidfd (fdinfo). It returns ErrGone if the process has been
// reaped, or is in no visible pid namespace.
func PIDOf(pidfd int) (int, error) {
	b, err := read(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd), noLimit)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		value, ok := bytes.CutPrefix(line, []byte("Pid:"))
		if !ok {
			continue
		}
		pid, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil {
			return 0, fmt.Errorf("parse fdinfo of %d: %w", pidfd, err)
		}
		if pid <= 0 {
			return 0, fmt.Errorf("pidfd %d: %w", pidfd, ErrGone)
		}
		return pid, nil
	}
	return 0, fmt.Errorf("descriptor %d is no pidfd: %w", pidfd, errors.ErrUnsupported)
}

func readPID(pid int, file string) ([]byte, error) {
	return readPIDLimit(pid, file, noLimit)
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

const noLimit = -1

// read reads a file of /proc, limit bytes of it at most.
//
// os.File would register each descriptor with the runtime's poller and make pollable files (mountinfo)
// non-blocking. The size in stat(2) is 0, and one read may return only a page.
func read(path string, limit int) ([]byte, error) {
	fd, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	b, err := ReadAll(fd, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

func open(path string) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// ReadAll reads a file to its end, or limit bytes of it if limit is not negative.
func ReadAll(fd, limit int) ([]byte, error) {
	buf := make([]byte, 0, 4096)
	for limit < 0 || len(buf) < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		room := buf[len(buf):cap(buf)]
		if limit >= 0 {
			room = room[:min(len(room), limit-len(buf))]
		}
		n, err := unix.Read(fd, room)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return buf, nil
		default:
			buf = buf[:len(buf)+n]
		}
	}
	return buf, nil
}
