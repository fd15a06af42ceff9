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

// Tasks is how many processes and threads there are on this machine, in all pid namespaces
// (/proc/loadavg).
func Tasks() (int, error) {
	b, err := read("/proc/loadavg", noLimit)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 4 {
		return 0, fmt.Errorf("parse loadavg %q: %w", clip(b), errors.ErrUnsupported)
	}
	_, all, _ := strings.Cut(fields[3], "/")
	return strconv.Atoi(all)
}

// Comm is the name of a process, which it chooses itself: at most 15 bytes of any kind.
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

// SoftLimit reads one of /proc/PID/limits, which everybody may (prlimit(2) asks for rights).
func SoftLimit(pid int, name string) (soft uint64, ok bool) {
	b, err := readPID(pid, "limits")
	if err != nil {
		return 0, false
	}
	return ParseLimit(b, name)
}

// ReadCgroup reads where a process is in the cgroup2 hierarchy; pid 0 means
// ourselves (so whoever has pids from cgroup.procs takes out the 0 first). The
// path is as [ParseCgroup] says. An unreaped process stays in its cgroup even
// when that has been removed: deleted, and the path is where it was.
//
// The error is [ErrNoCgroup2] where there is no such hierarchy.
func ReadCgroup(pid int) (path string, deleted bool, err error) {
	b, err := readCgroup(pid)
	if err != nil {
		return "", false, err
	}
	path, deleted, ok := ParseCgroup(b)
	if !ok {
		return "", false, fmt.Errorf("find cgroup of pid %d: %w", pid, ErrNoCgroup2)
	}
	if !deleted {
		return path, false, nil
	}
	alive, err := alive(pid)
	if err != nil {
		return "", false, err
	}
	if alive {
		// A member has named a directory to look like a removed one.
		return path + deletedMark, false, nil
	}
	return path, true, nil
}

func readCgroup(pid int) ([]byte, error) {
	if pid == 0 {
		// Not by number: of another pid namespace's /proc only "self" tells
		// that we are not in it.
		return read("/proc/self/cgroup", noLimit)
	}
	return readPID(pid, "cgroup")
}

// alive reports whether a thread of the process is left: the first one may be
// a zombie while others run.
func alive(pid int) (bool, error) {
	if pid == 0 {
		return true, nil
	}
	s, err := ReadStat(pid)
	if err != nil {
		return false, err
	}
	return s.State != 'Z' && s.State != 'X' || s.Threads > 1, nil
}

// ReadCgroup2Mounts lists the cgroup2 mounts that we can see; see
// [ParseCgroup2Mounts].
func ReadCgroup2Mounts() ([]Mount, error) {
	b, err := read("/proc/self/mountinfo", noLimit)
	if err != nil {
		return nil, err
	}
	return ParseCgroup2Mounts(b), nil
}

// Cmdline returns the arguments of a process for display, at most max bytes of
// them: a blank between each, '?' for what is not text or would act on a
// terminal. It is empty for a zombie, for a kernel thread and in the middle of
// an execve (os/exec's Start returns there), and whatever the process likes
// when it has rewritten its arguments.
//
// The kernel reads them from the process's own memory: a process that backs
// that by a file system of its own can make this call hang. Not for the path
// of a stop.
func Cmdline(pid, max int) (string, error) {
	b, err := readPIDLimit(pid, "cmdline", max)
	return oneLine(b), err
}

// Arguments are those of a process, as far as the first max bytes have them; none of one that has ended. What is said of
// Cmdline holds for them, too.
func Arguments(pid, max int) []string {
	b, _ := readPIDLimit(pid, "cmdline", max)
	return ended(b)
}

// ended are texts that each end with a zero.
func ended(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Wchan names the kernel function that a process waits in, "" when it runs or
// when the kernel does not say (it takes the right to ptrace). It is a hint to
// whoever has to find out why a process does not die, so no error is worth
// more than "".
func Wchan(pid int) string {
	b, err := readPID(pid, "wchan")
	if err != nil || string(b) == "0" {
		return ""
	}
	return oneLine(b)
}

// Environ is what our own process was started with: to the byte, in that order and with
// duplicates, all of which os.Environ loses.
func Environ() ([]string, error) {
	b, err := read("/proc/self/environ", noLimit)
	return ended(b), err
}

// PIDOf returns the pid of the process that a pidfd holds (fdinfo). It gives
// ErrGone if that has been reaped, or is in no pid namespace that we see.
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

func pidPath(pid int) string {
	return "/proc/" + strconv.Itoa(pid)
}

// checkPID refuses 0, which is what a process outside our pid namespace looks
// like in cgroup.procs and as a parent: it must not be taken for ourselves.
func checkPID(pid int) error {
	if pid <= 0 {
		return fmt.Errorf("pid %d: %w", pid, unix.EINVAL)
	}
	return nil
}

// markGone makes the error match ErrGone when the process has gone.
//
// ESRCH (it went after the open) proves that. ENOENT does not: so answers a
// /proc that is not mounted, one with hidepid=2 about another user's process,
// and a file that this kernel does not have. Signal 0, which is none, finds a
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
// No os.File: it offers each descriptor to the runtime's poller, and where the
// file can be polled (mountinfo can) makes it non-blocking; nothing here is
// waited for. The size in stat(2) is 0, and one read may give a page and no
// more.
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

// ReadAll reads on to the end of a file, or until it has read limit bytes, if that is not negative.
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
