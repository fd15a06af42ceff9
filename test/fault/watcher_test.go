// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watcher sees every call of the processes of one `mcpscope run`, in order, and lets them go on,
// but for one.
type watcher struct {
	fd, wake int
	root     int      // the launcher's pid
	stderr   *os.File // the client's
	shot     *shot
	over     chan struct{} // closed when no process with the filter is left

	mu      sync.Mutex
	threads map[uint32]*process
	all     []*process
	guards  map[role]*process // the newest of each that is no fork
	counts  map[point]int     // with n 0
	last    map[uint32][]step // by thread
	visits  []visit
	fired   bool
	odd     []string // what no process of mcpscope's may do
}

// watch serves the listener until its last process has ended.
func watch(t *testing.T, listener, root int, stderr *os.File, s *shot) *watcher {
	t.Helper()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{
		fd: listener, wake: wake, root: root, stderr: stderr, shot: s, over: make(chan struct{}),
		threads: map[uint32]*process{}, guards: map[role]*process{}, counts: map[point]int{}, last: map[uint32][]step{},
	}
	go w.serve(t)
	t.Cleanup(w.close)
	return w
}

func (w *watcher) serve(t *testing.T) {
	defer close(w.over)
	for {
		n, over, err := receive(w.fd, w.wake)
		if err != nil {
			t.Errorf("receive a system call: %v", err)
		}
		if over || err != nil {
			return
		}
		w.handle(n)
	}
}

// close kills the processes that are left. Without a listener every call of theirs would fail.
func (w *watcher) close() {
	for _, p := range w.processes() {
		p.signal(unix.SIGKILL)
	}
	for _, p := range w.processes() {
		_ = p.ended() // a test that leaves one fails by other means
	}
	_, _ = unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd of ours takes it
	<-w.over
	for _, p := range w.processes() {
		_ = unix.Close(p.pidfd)
	}
	_ = unix.Close(w.fd)
	_ = unix.Close(w.wake)
}

func (w *watcher) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// ours are the processes of mcpscope.
func (w *watcher) ours() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.all), func(p *process) bool { return p.role == stranger })
}

func (w *watcher) handle(n notification) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.process(n.TID)
	if err != nil || !n.waits(w.fd) { // killed meanwhile
		n.goOn(w.fd)
		return
	}
	if p.role == stranger {
		p.executed = p.executed || n.NR == unix.SYS_EXECVE || n.NR == unix.SYS_EXECVEAT
		n.goOn(w.fd)
		return
	}
	c := callOf(uint32(n.NR))
	w.suspect(n, p, c)
	if p.runtimes(n) {
		n.goOn(w.fd)
		return
	}
	at := point{role: p.role, call: c.name, about: subject(n, c)}
	w.counts[at]++
	at.n = w.counts[at]
	if w.shot == nil {
		w.visits = append(w.visits, visit{at, w.alive(), c.errnos})
	}
	w.recognise(n, p, at)
	if w.hit(at) {
		if w.shot.errno != 0 {
			n.fail(w.fd, w.shot.errno)
			return
		}
		w.killAll(w.shot.kill)
	}
	p.executed = p.executed || n.NR == unix.SYS_EXECVE || n.NR == unix.SYS_EXECVEAT
	n.goOn(w.fd)
}

// hit reports whether this is the point of the fault.
func (w *watcher) hit(at point) bool {
	if w.shot == nil || w.shot.point != at {
		return false
	}
	w.fired = true
	return true
}

// notification is struct seccomp_notif: a thread waits in a system call.
type notification struct {
	ID    uint64
	TID   uint32
	Flags uint32
	NR    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

func listenerCall(fd int, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("ioctl", errno)
		}
	}
}

// receive takes the next call. over reports that no process is left that could make one: a filter
// ends with the last task that has it. wake ends the wait.
func receive(fd, wake int) (n notification, over bool, err error) {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return n, true, os.NewSyscallError("poll", err)
		}
		switch {
		case fds[0].Revents&unix.POLLIN != 0:
			n = notification{} // the kernel insists on zeros
			err := listenerCall(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
			if errors.Is(err, unix.ENOENT) {
				continue // its thread was killed meanwhile
			}
			return n, false, err
		case fds[0].Revents != 0 || fds[1].Revents != 0:
			return n, true, nil
		}
	}
}

// goOn lets the call happen.
func (n notification) goOn(fd int) {
	a := answer{ID: n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_ = listenerCall(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) // ENOENT: its thread was killed
}

// fail answers the call instead of the kernel.
func (n notification) fail(fd int, errno unix.Errno) {
	a := answer{ID: n.ID, Error: -int32(errno)}
	_ = listenerCall(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) // as above
}

// waits reports whether the thread still waits for the answer: then what was read of it in
// /proc was its own.
func (n notification) waits(fd int) bool {
	return listenerCall(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.ID)) == nil
}

// Some calls are the Go runtime's own, and it aborts the process when one fails: no program can
// say anything then. Guards are killed there all the same. (mcpscope has them happen before a
// server runs, and tries first whether they can.)

// runtimes recognises the runtime's wake-up of its own poller, which comes at any time and
// concerns no other process.
func (p *process) runtimes(n notification) bool {
	return p.event > 0 && n.Args[0] == p.event && (n.NR == unix.SYS_WRITE || n.NR == unix.SYS_READ)
}

// recognise finds the calls by which the runtime begins: the look whether descriptors 0 to 2
// are open, /dev/null in their place, and the three for its poller. It is the only one to make an eventfd straight after
// an epoll set.
func (w *watcher) recognise(n notification, p *process, at point) {
	if n.NR == unix.SYS_FCNTL && n.Args[0] <= 2 && n.Args[1] == unix.F_GETFD {
		w.spare(len(w.visits) - 1)
	}
	if n.NR == unix.SYS_OPENAT && at.about == "/dev/null" && p.role == helper { // which has no descriptors 0 to 2
		w.spare(len(w.visits) - 1)
	}
	three := append(w.last[n.TID], step{n.NR, len(w.visits) - 1})
	if len(three) == 3 && three[0].nr == unix.SYS_EPOLL_CREATE1 && three[1].nr == unix.SYS_EVENTFD2 && n.NR == unix.SYS_EPOLL_CTL {
		p.event = n.Args[2]
		for _, s := range three {
			w.spare(s.visit)
		}
	}
	w.last[n.TID] = three[max(len(three)-2, 0):]
}

// spare takes the errors from a visit, if visits are kept.
func (w *watcher) spare(visit int) {
	if visit >= 0 {
		w.visits[visit].errnos = nil
	}
}

// step is a call of a thread, and which visit it was.
type step struct {
	nr    int32
	visit int
}

// killAll kills guards at a time: stopped first, none can act on another's end.
func (w *watcher) killAll(roles []role) {
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
		for _, r := range roles {
			if p := w.guards[r]; p != nil {
				p.signal(sig)
			}
		}
	}
	for _, r := range roles {
		if p := w.guards[r]; p != nil && !p.ended() {
			w.odd = append(w.odd, fmt.Sprintf("the %s outlives SIGKILL", r))
		}
	}
}

// suspect notes signs that the Go runtime has given up, and lines that are not the guard's
// to write: its stderr is the server's.
func (w *watcher) suspect(n notification, p *process, c call) {
	switch {
	case c.unknown():
		w.odd = append(w.odd, fmt.Sprintf("%s makes %s, which is in no table here", p.role, c.name))
	case n.NR == unix.SYS_EXIT_GROUP && n.Args[0] == 2:
		w.odd = append(w.odd, fmt.Sprintf("%s exits with 2, as the Go runtime does", p.role))
	case n.NR == unix.SYS_WRITE && n.Args[0] == 2 && p.role != launcher && w.isStderr(n.TID):
		w.odd = append(w.odd, fmt.Sprintf("%s says %q on stderr", p.role, memory(n.TID, n.Args[1], int(n.Args[2]))))
	}
}

// isStderr reports whether descriptor 2 of a thread is still the client's.
func (w *watcher) isStderr(tid uint32) bool {
	var theirs, ours unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/fd/2", tid), &theirs) == nil && unix.Fstat(int(w.stderr.Fd()), &ours) == nil &&
		theirs.Ino == ours.Ino && theirs.Dev == ours.Dev
}

// memory reads a thread's.
func memory(tid uint32, at uint64, size int) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, min(size, 400))
	n, _ := f.ReadAt(b, int64(at)) // as much as is mapped
	return b[:n]
}

// subject is the object of a call, without the parts that differ from run to run.
func subject(n notification, c call) string {
	switch {
	case c.about == none:
		return ""
	case c.about >= fd(0):
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.TID, int32(n.Args[c.about-fd(0)]))) // "" for one that is closed
		return anonymous(path)
	}
	text := memory(n.TID, n.Args[c.about], 256)
	if end := slices.Index(text, 0); end >= 0 {
		text = text[:end]
	}
	return anonymous(string(text))
}

var (
	groupNames = regexp.MustCompile(`mcp-([a-z]+)[0-9]*-[a-z0-9]{8}`)
	numbers    = regexp.MustCompile(`[0-9]+`)
)

// anonymous leaves out ids, pids and inode numbers.
func anonymous(path string) string {
	return numbers.ReplaceAllString(groupNames.ReplaceAllString(path, "mcp-$1"), "N")
}
