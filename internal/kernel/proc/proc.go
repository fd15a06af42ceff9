// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package proc reads the files of /proc about processes, and the formats of cgroup files with pids and
// counters.
//
// A process controls part of these texts (its comm, its arguments, the names of its cgroups), so parsers
// accept any bytes: they return a value or an error, never panic, and never let one field spill into the
// next. [ErrGone] means that the process has exited, and is not returned for a process that is merely
// invisible.
//
// A result was true at some moment during the call. The package does not pin processes (the caller's pidfd
// does), sends no signals, and caches nothing.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// ErrGone: the process has exited and has been reaped. The errno (ENOENT or ESRCH, depending on the
	// moment) stays in the chain.
	ErrGone = errors.New("process has gone")

	// ErrNoCgroup2: /proc/PID/cgroup has no "0::" line. Either the kernel has no cgroup2 hierarchy, or it has
	// not been mounted since boot.
	ErrNoCgroup2 = errors.New("no cgroup2 hierarchy")
)

// Comm returns the name of a process, which it chooses itself: at most 15 bytes of any kind.
func Comm(pid int) (string, error) {
	b, err := readPID(pid, "comm", NoLimit)
	return strings.TrimSuffix(string(b), "\n"), err
}

// FileLocks reads the soft limit RLIMIT_LOCKS in /proc/PID/limits, which is readable for all users;
// prlimit(2) is not. ok is false for "unlimited".
func FileLocks(pid int) (soft uint64, ok bool) {
	b, _ := readPID(pid, "limits", NoLimit) // none, if it has exited
	return parseFileLocks(b)
}

// ReadCgroup returns the path of a process in the cgroup2 hierarchy, see [ParseCgroup]; pid 0 means our own
// process. The error is [ErrNoCgroup2] without such a hierarchy.
func ReadCgroup(pid int) (string, error) {
	var b []byte
	var err error
	if pid == 0 { // not by number: "self" fails in the /proc of another pid namespace
		b, err = read("/proc/self/cgroup", NoLimit)
	} else {
		b, err = readPID(pid, "cgroup", NoLimit)
	}
	if err != nil {
		return "", err
	}
	path, ok := ParseCgroup(b)
	if !ok {
		return "", fmt.Errorf("find cgroup of pid %d: %w", pid, ErrNoCgroup2)
	}
	return path, nil
}

// ReadCgroup2Mounts lists the visible cgroup2 mounts; see [ParseCgroup2Mounts].
func ReadCgroup2Mounts() ([]Mount, error) {
	b, err := read("/proc/self/mountinfo", NoLimit)
	return ParseCgroup2Mounts(b), err
}

// Arguments returns the arguments of a process within the first max bytes. There are none of a zombie, of a
// kernel thread, and during an execve (os/exec's Start returns there). A process can rewrite them.
//
// The kernel reads them from the process's memory. If that is backed by a file system of the process, the
// call can hang: do not call it in the stop sequence.
func Arguments(pid, max int) []string {
	b, _ := readPID(pid, "cmdline", max) // none, if it has exited
	return ended(b)
}

// Cmdline joins Arguments.
func Cmdline(pid, max int) string {
	return strings.TrimRight(strings.Join(Arguments(pid, max), " "), " ")
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
	b, _ := readPID(pid, "wchan", NoLimit) // none, if it has exited
	return strings.TrimPrefix(string(b), "0")
}

// DescriptorPath returns the file of a process's descriptor in /proc.
func DescriptorPath(pid, number int) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, number) }

// Environ returns the environment that this process was started with: byte for byte, in that order and with
// duplicates. os.Environ loses all of these.
func Environ() ([]string, error) {
	b, err := read("/proc/self/environ", NoLimit)
	return ended(b), err
}

// readPID fails for pid 0: in cgroup.procs and as a parent it is a process outside our pid namespace.
func readPID(pid int, file string, limit int) ([]byte, error) {
	b, err := read(fmt.Sprintf("/proc/%d/%s", pid, file), limit)
	return b, markGone(pid, err)
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

// ParseCgroup finds the cgroup2 line, "0::PATH", in the contents of /proc/PID/cgroup.
//
// PATH is verbatim: nothing in it is escaped (a backslash is a backslash, also in "\012"). It contains any
// byte but NUL and newline. It is relative to the reader's cgroup namespace, and begins with "/.." for a
// process outside it. That of a zombie in a removed cgroup ends in " (deleted)".
func ParseCgroup(b []byte) (path string, ok bool) {
	for line := range bytes.Lines(b) {
		p, found := bytes.CutPrefix(line, []byte("0::/"))
		if found {
			return "/" + string(bytes.TrimSuffix(p, []byte("\n"))), true
		}
	}
	return "", false
}

// parseFileLocks finds the soft limit RLIMIT_LOCKS in /proc/PID/limits. ok is false for "unlimited", and
// without such a line: the file of a zombie is empty.
func parseFileLocks(b []byte) (soft uint64, ok bool) {
	_, rest, _ := bytes.Cut(b, []byte("\nMax file locks "))
	number, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	soft, err := strconv.ParseUint(string(number), 10, 64)
	return soft, err == nil
}

// Mount is a mount of the cgroup2 hierarchy.
type Mount struct {
	Root     string // the mounted directory; "/" is the root of the mounter's cgroup namespace
	Target   string
	ReadOnly bool // the mount, or the whole file system
}

// ParseCgroup2Mounts lists the cgroup2 mounts in the contents of /proc/PID/mountinfo, in the kernel's order:
// of two mounts with the same Target, the later hides the earlier. It skips malformed lines.
func ParseCgroup2Mounts(mountinfo []byte) []Mount {
	var all []Mount
	for line := range strings.Lines(string(mountinfo)) {
		// six fields and any number of optional ones, then "-" and three more
		mount, super, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		m, s := strings.Split(mount, " "), strings.Split(super, " ") // not Fields: the source may be empty
		if len(m) > 5 && len(s) > 2 && s[0] == "cgroup2" {
			all = append(all, Mount{
				escapes.Replace(m[3]), escapes.Replace(m[4]), readOnly(m[5]) || readOnly(s[2]),
			})
		}
	}
	return all
}

// readOnly: the kernel writes ro or rw before all other options.
func readOnly(options string) bool { return options == "ro" || strings.HasPrefix(options, "ro,") }

// escapes are those of the kernel in a path of mountinfo.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Mapping is a range of addresses.
type Mapping struct{ From, To uintptr }

// PrivateMemory lists the writable private mappings of this process but the stack, none without /proc.
func PrivateMemory() (all []Mapping) {
	maps, _ := read("/proc/self/maps", NoLimit)
	for line := range bytes.Lines(maps) { // "7f00-7f80 rw-p …"
		addresses, rest, _ := bytes.Cut(line, []byte(" "))
		first, last, _ := bytes.Cut(addresses, []byte("-"))
		from, err := strconv.ParseUint(string(first), 16, 64)
		to, err2 := strconv.ParseUint(string(last), 16, 64)
		stack := bytes.HasSuffix(rest, []byte("[stack]\n"))
		if err == nil && err2 == nil && bytes.HasPrefix(rest, []byte("rw-p")) && !stack {
			all = append(all, Mapping{uintptr(from), uintptr(to)})
		}
	}
	return all
}

// HoldsFlock reports whether a process has taken a flock(2) that still exists on the file with that device
// and inode number. A line of /proc/locks is "1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF".
func HoldsFlock(pid int, dev, ino uint64) (bool, error) {
	b, err := read("/proc/locks", NoLimit)
	lock := fmt.Appendf(nil, "WRITE %d %02x:%02x:%d ", pid, unix.Major(dev), unix.Minor(dev), ino)
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte(": FLOCK ")) && bytes.Contains(line, lock) {
			return true, nil
		}
	}
	return false, err
}

// Output returns the text that a program writes to stdout and stderr, however it ends.
func Output(path string, argv, env []string) ([]byte, error) {
	r, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	defer r.Close()
	files := []uintptr{0, to.Fd(), to.Fd()}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: files})
	_ = to.Close() // the program's
	if err != nil {
		return nil, fmt.Errorf("execute %s: %w", path, err)
	}
	text, err := io.ReadAll(r)
	_, _ = syscall.Wait4(pid, nil, 0, nil) // the text shows how it ended
	return text, err
}

// Keyed finds one value in a flat-keyed cgroup file (cgroup.events, cpu.stat, memory.events): lines of "KEY
// VALUE". It does not allocate: the wait for an empty group calls it often.
func Keyed(b []byte, key string) (value uint64, ok bool) {
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		name, number, _ := bytes.Cut(line, []byte(" "))
		if string(name) != key {
			continue
		}
		v, err := strconv.ParseUint(string(number), 10, 64)
		if err != nil {
			return 0, false // v would be the largest number for one that is too large
		}
		return v, true
	}
	return 0, false
}
