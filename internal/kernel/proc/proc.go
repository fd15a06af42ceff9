// SPDX-License-Identifier: Apache-2.0

// Package proc reads the files of /proc about processes, and the formats of cgroup files with pids and
// counters.
//
// A process controls part of these texts (its comm, its arguments, the names of its cgroups), so parsers
// accept any bytes: they return a value or an error, never panic, and never let one field spill into the
// next.
//
// A result was true at some moment during the call. The package does not pin processes (the caller's pidfd
// does), sends no signals, and caches nothing.
package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoCgroup2: /proc/PID/cgroup has no "0::" line. Either the kernel has no cgroup2 hierarchy, or it has not
// been mounted since boot.
var ErrNoCgroup2 error = Unsupported("no cgroup2 hierarchy is mounted")

// Unsupported is errors.ErrUnsupported with the reason as its text: "unsupported operation" behind a reason
// says nothing to people.
type Unsupported string

func (u Unsupported) Error() string { return string(u) }

// Is makes [errors.Is] find errors.ErrUnsupported.
func (u Unsupported) Is(target error) bool { return target == errors.ErrUnsupported }

// ErrForeign: /proc has the processes of another pid namespace, whose numbers are other processes here.
var ErrForeign = errors.New("/proc is that of another pid namespace")

// Ours returns ErrForeign for such a /proc, and nil also for none.
func Ours() error {
	own, err := os.Readlink("/proc/self")
	if err == nil && own != strconv.Itoa(os.Getpid()) {
		return ErrForeign
	}
	return nil
}

// Comm returns the name of a process, which it chooses itself: at most 15 bytes of any kind.
func Comm(pid int) (string, error) {
	b, err := read("/proc/%d/comm", pid)
	return strings.TrimSuffix(string(b), "\n"), err
}

// FileLocks reads the soft limit RLIMIT_LOCKS in /proc/PID/limits, which is readable for all users;
// prlimit(2) is not. ok is false for "unlimited".
func FileLocks(pid int) (soft uint64, ok bool) {
	b, _ := read("/proc/%d/limits", pid) // none, if it has exited
	return parseFileLocks(b)
}

// ReadCgroup returns the path of a process in the cgroup2 hierarchy, see [ParseCgroup]; pid 0 means our own
// process. The error is [ErrNoCgroup2] without such a hierarchy.
func ReadCgroup(pid int) (string, error) {
	process := strconv.Itoa(pid)
	if pid == 0 { // not by number: "self" fails in the /proc of another pid namespace
		process = "self"
	}
	b, err := read("/proc/%s/cgroup", process)
	path, ok := ParseCgroup(b)
	if err == nil && !ok {
		err = fmt.Errorf("find cgroup of pid %d: %w", pid, ErrNoCgroup2)
	}
	return path, err
}

// Arguments returns the arguments of a process within the first max bytes. It is nil for a zombie, for a
// kernel thread, and during an execve (os/exec's Start returns there). A process can rewrite them.
//
// The kernel reads them from the process's memory. If that is backed by a file system of the process, the
// call can hang: do not call it in the stop sequence.
func Arguments(pid, max int) []string {
	b, _ := ReadAt(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/cmdline", pid), max) // none, if it has exited
	return ended(b)
}

// Cmdline returns the command line of a process, of at most max bytes, with blanks between the words; "" if
// it cannot be read.
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
	b, _ := read("/proc/%d/wchan", pid) // none, if it has exited
	return strings.TrimPrefix(string(b), "0")
}

// DescriptorPath returns the link of a descriptor of a process in /proc.
func DescriptorPath(pid, number int) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, number) }

// EachDescriptor visits the open files of a process by number and link, until visit returns false. The list
// of a process whose first thread has exited is empty, so this uses that of another thread.
func EachDescriptor(pid int, visit func(number int, link string) bool) error {
	in := fmt.Sprintf("/proc/%d", pid)
	none := true
	each := func(number int) bool {
		none = false
		return visit(number, fmt.Sprintf("%s/fd/%d", in, number))
	}
	err := EachNumber(in+"/fd", each)
	if err != nil || !none {
		return err
	}
	st, err := ReadStat(pid)
	if err != nil || st.State != 'Z' || st.Threads < 2 {
		return err
	}
	return EachNumber(in+"/task", func(tid int) bool {
		in = fmt.Sprintf("/proc/%d/task/%d", pid, tid)
		_ = EachNumber(in+"/fd", each) // it may have exited
		return none
	})
}

// Environ returns the environment that this process was started with: byte for byte, in that order and with
// duplicates. os.Environ loses all of these.
func Environ() ([]string, error) {
	b, err := read("/proc/self/environ")
	return ended(b), err
}

// EnvironmentOf returns the environment that the program of another process was started with, nil if it can't
// be read.
func EnvironmentOf(pid int) []string {
	b, err := read("/proc/%d/environ", pid)
	if err != nil {
		return nil
	}
	return ended(b)
}

// Exited reports whether a process has exited and has been reaped. ENOENT of a file does not prove it: that
// also occurs without /proc, with hidepid=2 for processes of other users, and for a file that this kernel
// does not have. Signal 0 reaches a process in all three cases.
func Exited(pid int) bool { return unix.Kill(pid, 0) == unix.ESRCH }

// IsGone reports whether an error means that a group was removed, or that a process has exited: ENOENT for a
// name or a removed directory, ENODEV for a file that was open, ESRCH for a process.
func IsGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH)
}

// IgnoreGone: a group can end at any time.
func IgnoreGone(err error) error {
	if IsGone(err) {
		return nil
	}
	return err
}

// IsExhausted reports whether a call may succeed when descriptors are closed or memory is free.
func IsExhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// NoLimit has a read return the whole file.
const NoLimit = math.MaxInt

// read reads a file of /proc. It fails for pid 0: in cgroup.procs and as a parent that is a process outside
// our pid namespace.
func read(format string, args ...any) ([]byte, error) {
	path := fmt.Sprintf(format, args...)
	b, err := ReadAt(unix.AT_FDCWD, path, NoLimit)
	if err != nil {
		err = fmt.Errorf("read %s: %w", path, err)
	}
	return b, err
}

// ReadAt reads a file below an open directory, limit bytes of it at most. The error is an errno.
//
// os.File would register each descriptor with the runtime's poller and make pollable files non-blocking. The
// size in stat(2) is 0, and one read may return only a page.
func ReadAt(dir int, path string, limit int) ([]byte, error) {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 0, 2048) // more than status and stat of a process have
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

// Locks has the processes in our pid namespace that have taken, or wait for, a lock. Its keys are files, as
// /proc/locks names them: "major:minor:inode".
type Locks map[string][]int

// ReadLocks reads all locks of the host. The kernel's work grows faster than their number.
func ReadLocks() (Locks, error) {
	text, err := read("/proc/locks")
	if err != nil {
		return nil, err
	}
	return parseLocks(text), nil
}

// parseLocks parses lines of "1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF".
func parseLocks(text []byte) Locks {
	locks := Locks{}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		fields := bytes.Fields(line)
		isFile := func(field []byte) bool { return bytes.Count(field, []byte(":")) == 2 }
		i := slices.IndexFunc(fields, isFile)
		if i < 1 {
			continue
		}
		pid, err := strconv.Atoi(string(fields[i-1]))
		if err != nil {
			continue
		}
		file := string(fields[i])
		locks[file] = append(locks[file], pid)
	}
	return locks
}

// On returns the processes that have taken a lock on a file.
func (l Locks) On(file *unix.Stat_t) []int {
	return l[fmt.Sprintf("%02x:%02x:%d", unix.Major(file.Dev), unix.Minor(file.Dev), file.Ino)]
}

// Output returns the text that a program writes to stdout and stderr, however it ends. It kills one that
// takes too long, and does not wait for its end: a file system that hangs would delay that.
func Output(path string, argv, env []string, within time.Duration) ([]byte, error) {
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
	_ = r.SetReadDeadline(time.Now().Add(within)) // a pipe has one
	text, err := io.ReadAll(r)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // its number is ours until it was waited for
		err = fmt.Errorf("%s has not ended after %v, as if a file system hung", path, within)
	}
	go func() { _, _ = syscall.Wait4(pid, nil, 0, nil) }() // the text shows how it ended
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
		// with an error, v is the largest number for one that is too large
		if v, err := strconv.ParseUint(string(number), 10, 64); err == nil {
			return v, true
		}
	}
	return 0, false
}

// Children lists the direct children of a process, with zombies, in ascending order. Children that start or
// exit meanwhile may be missing, and the kernel may skip the next sibling of a child that exits. Callers that
// need all of them repeat the call until it returns nothing new.
//
// A child belongs to the thread that forked it. When a thread exits, another thread takes over its children,
// which may be one that was read already. So the threads are read until they are the same before and after.
// The number of attempts is bounded because a process can start threads all the time.
func Children(pid int) ([]int, error) {
	const attempts = 4
	var all, before []int
	for n := 0; ; n++ {
		var tids []int
		err := EachNumber(fmt.Sprintf("/proc/%d/task", pid), func(tid int) bool {
			tids = append(tids, tid)
			return true
		})
		if err != nil {
			return nil, err
		}
		if n == attempts || n > 0 && slices.Equal(tids, before) {
			slices.Sort(all)
			return slices.Compact(all), nil
		}
		all = nil
		before = tids
		for _, tid := range tids {
			pids, err := childrenOfThread(pid, tid)
			if err != nil {
				return nil, err
			}
			all = append(all, pids...)
		}
	}
}

// Orphans lists the children of a process's first thread. The kernel re-parents orphans to it
// (find_alive_thread in exit.c). It is much faster than Children.
func Orphans(pid int) ([]int, error) { return childrenOfThread(pid, pid) }

// childrenOfThread: a missing file means that the thread has exited, or that this kernel has no such file.
// Our own thread distinguishes the two.
func childrenOfThread(pid, tid int) ([]int, error) {
	if err := Ours(); err != nil {
		return nil, err
	}
	b, err := read("/proc/%d/task/%d/children", pid, tid)
	switch {
	case err == nil:
		return ParsePIDs(b)
	case errors.Is(err, unix.ESRCH):
		return nil, nil
	case !errors.Is(err, unix.ENOENT):
		return nil, err
	case unix.Access("/proc/thread-self/children", unix.F_OK) != nil:
		return nil, Unsupported("the kernel has no CONFIG_PROC_CHILDREN")
	case tid == pid: // the first thread stays as long as the process
		return nil, err
	}
	return nil, nil
}

// Each calls visit for every visible process, in ascending order, until it returns false. It reads a few
// processes at a time. So a process is visited while it exists, and also if a process that has not been
// visited yet forks it, as long as pids grow.
func Each(visit func(pid int) bool) error {
	if err := Ours(); err != nil {
		return err
	}
	return EachNumber("/proc", visit)
}

// EachNumber calls visit for every entry of a directory that is a number, until it returns false. It is
// faster than package os.
func EachNumber(dir string, visit func(n int) bool) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	var buf [512]byte // about twenty entries
	for {
		n, err := unix.ReadDirent(fd, buf[:])
		if err != nil {
			return fmt.Errorf("list %s: %w", dir, err)
		}
		if n == 0 {
			return nil
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if n, err := strconv.Atoi(name); err == nil && !visit(n) {
				return nil
			}
		}
	}
}

// ParsePIDs parses cgroup.procs, cgroup.threads, or /proc/PID/task/TID/children. It returns each pid once and
// in ascending order: a process that left and returned during the read is listed twice. 0 stands for all
// processes outside our pid namespace. Only cgroup.kill reaches these, and kill(2) would signal our own
// process group.
func ParsePIDs(b []byte) ([]int, error) {
	var pids []int
	for text := range bytes.FieldsSeq(b) {
		// 31 bits and no sign: a negative number would be a process group to kill(2)
		n, err := strconv.ParseUint(string(text), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("parse pids: %w", err)
		}
		pids = append(pids, int(n))
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// Stat contains fields of /proc/PID/stat.
type Stat struct {
	PID  int
	Comm string // any bytes but NUL, at most 15 (63 for a kernel thread); the process chooses them
	// State is R, S, D, T (stopped), t (traced), Z, X, I … With Z and Threads above 1, the first thread has
	// exited and others run.
	State      byte
	Exiting    bool   // the first thread has begun to exit; its descriptors are closed after that
	PPID       int    // 0 where the parent lives in another pid namespace
	Ticks      uint64 // CPU time in clock ticks (100 a second) of all threads, ended ones too
	ChildTicks uint64 // like Ticks, of reaped children
	// ChildFaults counts the minor page faults of reaped children. It is 0 as long as none was reaped.
	ChildFaults uint64
	StartTime   uint64 // clock ticks from boot to the start; with PID, it identifies the process
	Threads     int
	Terminal    uint64 // device number of the controlling terminal, or 0
	Foreground  bool   // its process group is in the foreground of that
	Processor   int    // on which the first thread has run last
}

// Stopped reports whether the first thread is stopped by a signal or a tracer.
func (s Stat) Stopped() bool { return s.State == 'T' || s.State == 't' }

// IsZombie reports whether the process has ended, and was not reaped yet: only its parent can remove it. With
// other threads it still runs.
func (s Stat) IsZombie() bool { return s.State == 'X' || s.State == 'Z' && s.Threads <= 1 }

// ReadStat reads /proc/PID/stat.
func ReadStat(pid int) (Stat, error) {
	b, err := read("/proc/%d/stat", pid)
	s, malformed := ParseStat(b)
	return s, cmp.Or(err, malformed)
}

const exiting = 0x4 // PF_EXITING of linux/sched.h

// ParseStat: the comm is not escaped, and may contain parentheses, blanks and newlines. No field after it
// contains a ')', so it ends at the last one.
func ParseStat(b []byte) (Stat, error) {
	open := bytes.Index(b, []byte(" ("))
	shut := bytes.LastIndexByte(b, ')')
	f := bytes.Fields(b[shut+1:]) // from the state, the third field in proc(5)
	if open < 0 || shut < open+2 || len(f) < 20 {
		return Stat{}, errors.New("parse stat: no comm in parentheses, or too few fields")
	}
	var malformed error // the first
	number := func(text []byte, bits int) uint64 {
		n, err := strconv.ParseUint(string(text), 10, bits)
		malformed = cmp.Or(malformed, err)
		return n
	}
	// The kernel prints this device number with a sign.
	terminal, _ := strconv.ParseInt(string(f[4]), 10, 32)
	const pid = 31 // bits, and no sign: a negative number would be a process group to kill(2)
	s := Stat{
		PID:         int(number(b[:open], pid)),
		Comm:        string(b[open+2 : shut]),
		State:       f[0][0],
		Exiting:     number(f[6], 32)&exiting != 0,
		PPID:        int(number(f[1], pid)),
		Ticks:       number(f[11], 64) + number(f[12], 64),
		ChildTicks:  number(f[13], 64) + number(f[14], 64),
		ChildFaults: number(f[8], 64),
		Threads:     int(number(f[17], pid)),
		StartTime:   number(f[19], 64),
		Terminal:    uint64(uint32(terminal)),
		Foreground:  terminal != 0 && bytes.Equal(f[2], f[5]),
	}
	if len(f) > 36 {
		s.Processor = int(number(f[36], pid))
	}
	if malformed != nil {
		return Stat{}, fmt.Errorf("parse stat: %w", malformed)
	}
	return s, nil
}

// Status contains fields of /proc/PID/status.
type Status struct {
	Tgid   int    // the process; differs from the argument if that is a thread
	Tracer int    // a thread that traces it, or 0
	UID    [4]int // real, effective, saved, file system
	Inside int    // the thread in its own pid namespace, 0 without that line
	Nested bool   // that is another one than that of /proc, below it
	// Filtered: a seccomp filter judges its system calls.
	Filtered bool
	// Pending are signals to the whole process that it has not got: signal n is bit n-1.
	Pending uint64
}

// ReadStatus reads /proc/PID/status.
func ReadStatus(pid int) (Status, error) {
	b, err := read("/proc/%d/status", pid)
	s, malformed := ParseStatus(b)
	return s, cmp.Or(err, malformed)
}

// ParseStatus parses the contents of /proc/PID/status. The kernel escapes newlines in the name, so a process
// cannot forge a line.
func ParseStatus(b []byte) (s Status, err error) {
	for line := range strings.Lines(string(b)) {
		switch key, value, _ := strings.Cut(line, ":"); key {
		case "Tgid":
			_, err = fmt.Sscan(value, &s.Tgid)
		case "TracerPid":
			_, err = fmt.Sscan(value, &s.Tracer)
		case "Uid": // (uid_t)-1 too
			_, err = fmt.Sscan(value, &s.UID[0], &s.UID[1], &s.UID[2], &s.UID[3])
		case "Seccomp": // 2 is SECCOMP_MODE_FILTER
			s.Filtered = strings.TrimSpace(value) == "2"
		case "ShdPnd":
			s.Pending, err = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		case "NSpid": // the innermost namespace is the last one
			all := strings.Fields(value)
			if len(all) > 0 {
				s.Inside, err = strconv.Atoi(all[len(all)-1])
				s.Nested = len(all) > 1
			}
		}
		if err != nil {
			return Status{}, fmt.Errorf("parse status: %w", err)
		}
	}
	if s.Tgid == 0 {
		return Status{}, errors.New("parse status: no Tgid")
	}
	return s, nil
}

// Memory is the physical memory of a process, in bytes.
type Memory struct {
	Resident uint64
	Shared   uint64 // part of Resident: pages of files, and shared memory
}

// ReadMemory reads /proc/PID/statm. A zombie has no memory, nor has a process that has exited.
func ReadMemory(pid int) (m Memory) {
	b, _ := read("/proc/%d/statm", pid)
	var size uint64
	_, _ = fmt.Sscan(string(b), &size, &m.Resident, &m.Shared) // numbers of pages
	m.Resident *= uint64(os.Getpagesize())
	m.Shared = min(m.Shared*uint64(os.Getpagesize()), m.Resident) // they are read one after the other
	return m
}

// SumMemory sums up the memory of processes: the private memory of each, and the files and shared memory of
// the process that has most of these, because many processes share the same pages.
func SumMemory(pids []int) uint64 {
	var private, shared uint64
	for _, pid := range pids {
		m := ReadMemory(pid)
		private += m.Resident - m.Shared
		shared = max(shared, m.Shared)
	}
	return private + shared
}
