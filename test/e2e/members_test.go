package e2e

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// members are the processes that have reported themselves to one socket. The
// zoo sends a pidfd with each report (zoo/zoo.c has the messages).
type members struct {
	board
	address       string // as the zoo's --register takes it
	sock, ep, end int    // the socket, an epoll set of all pidfds, an eventfd that ends watch

	living map[int]string // pidfd → "PID MODE/ROLE" as reported
	born   int
	main   *process // the first that reported
	id     string   // its MCPSCOPE_ID
	ready  bool
	errors []string
	said   []saying // anything else
}

// A saying is a message that only its test understands, and when it came.
type saying struct {
	text string
	when time.Time
}

var sockets atomic.Int32

// newMembers listens. An abstract address needs no place in a file system and
// has no length to care about.
func newMembers(t *testing.T) *members {
	t.Helper()
	m := &members{living: make(map[int]string)}
	m.address = fmt.Sprintf("@mcpscope-e2e.%d.%d", os.Getpid(), sockets.Add(1))
	err := m.open()
	if err != nil {
		t.Fatal(err)
	}
	watched := make(chan struct{})
	go m.watch(watched)
	t.Cleanup(func() {
		_, _ = unix.Write(m.end, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd of ours takes it
		<-watched
		m.close()
	})
	return m
}

func (m *members) open() error {
	var errs [4]error
	m.sock, errs[0] = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	m.ep, errs[1] = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	m.end, errs[2] = unix.Eventfd(0, unix.EFD_CLOEXEC)
	errs[3] = unix.Bind(m.sock, &unix.SockaddrUnix{Name: m.address})
	return errors.Join(errs[:]...)
}

func (m *members) close() {
	for fd := range m.living {
		unix.Close(fd)
	}
	if m.main != nil {
		m.main.close()
	}
	unix.Close(m.sock)
	unix.Close(m.ep)
	unix.Close(m.end)
}

// watch takes reports as they come: the socket's queue is short, and a member
// can't go on before its report is in it.
func (m *members) watch(watched chan<- struct{}) {
	defer close(watched)
	fds := []unix.PollFd{{Fd: int32(m.sock), Events: unix.POLLIN}, {Fd: int32(m.ep), Events: unix.POLLIN}, {Fd: int32(m.end), Events: unix.POLLIN}}
	for fds[2].Revents == 0 {
		if pollFor(time.Hour, fds...) {
			m.update(m.take)
		}
	}
}

// take reads all there is. Deaths come first: who forks and exits does so after
// its child has reported, so the child is never missing when the parent is gone.
func (m *members) take() {
	m.takeDeaths()
	for m.takeReport() {
	}
}

func (m *members) takeDeaths() {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(m.ep, events[:], 0)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return
		}
		for _, e := range events[:n] {
			// Closing is not enough: main is a duplicate of one of them.
			_ = unix.EpollCtl(m.ep, unix.EPOLL_CTL_DEL, int(e.Fd), nil) // it is in the set
			delete(m.living, int(e.Fd))
			unix.Close(int(e.Fd))
		}
	}
}

func (m *members) takeReport() bool {
	var text [512]byte
	var control [64]byte
	n, cn, _, _, err := unix.Recvmsg(m.sock, text[:], control[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err == unix.EINTR
	}
	kind, rest, _ := strings.Cut(string(text[:n]), " ")
	switch kind {
	case "main", "born":
		m.add(kind == "main", rest, passedFd(control[:cn]))
	case "ready":
		m.ready = true
	case "error":
		m.errors = append(m.errors, rest)
	default:
		m.said = append(m.said, saying{string(text[:n]), time.Now()})
	}
	return true
}

func passedFd(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return -1
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1
	}
	return fds[0]
}

func (m *members) add(first bool, text string, fd int) {
	if fd < 0 {
		m.errors = append(m.errors, "report without a pidfd: "+text)
		return
	}
	if err := unix.EpollCtl(m.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		m.errors = append(m.errors, "watch pidfd: "+err.Error())
	}
	m.living[fd] = text
	m.born++
	if !first || m.main != nil {
		return
	}
	if own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		m.main = &process{pid: pidOf(own), fd: own}
	}
	m.id = text[strings.LastIndexByte(text, ' ')+1:]
}

// untilReady waits until the first process says that all members are up.
func (m *members) untilReady(limit time.Duration) error {
	m.wait(limit, func() bool { return m.ready || len(m.errors) > 0 })
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.errors) > 0 {
		return errors.New(strings.Join(m.errors, "; "))
	}
	if !m.ready {
		return fmt.Errorf("not ready after %v; %d members were born, %d live", limit, m.born, len(m.living))
	}
	return nil
}

// untilDead waits until no member lives and returns how many do.
func (m *members) untilDead(limit time.Duration) int {
	m.wait(limit, func() bool { return len(m.living) == 0 })
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.living)
}

// running looks, now, which members can still run code.
func (m *members) running() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take()
	var all []string
	for fd, text := range m.living {
		if pid := pidOf(fd); pid > 0 && !exiting(pid) {
			all = append(all, text)
		}
	}
	return all
}

// places are the groups of those who live.
func (m *members) places() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]string)
	for fd, text := range m.living {
		if path, err := bed.ProcessPath(pidOf(fd)); err == nil { // it may have ended
			all[text] = path
		}
	}
	return all
}

func (m *members) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.born
}

// survivors describes who lives, at most ten of them.
func (m *members) survivors() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for fd, text := range m.living {
		all = append(all, fmt.Sprintf("%s: %s", text, describe(pidOf(fd))))
	}
	sort.Strings(all)
	if len(all) > 10 {
		all = append(all[:10], fmt.Sprintf("and %d more", len(all)-10))
	}
	return all
}

// kill ends who is left.
func (m *members) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take()
	for fd := range m.living {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may have ended
	}
}
