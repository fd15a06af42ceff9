// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// Members are the processes that have reported themselves to one socket. The
// zoo sends a pidfd with each report (zoo/zoo.c has the messages).
type Members struct {
	board
	Address       string // as the zoo's --register takes it
	sock, ep, end int    // the socket, an epoll set of all pidfds, an eventfd that ends watch

	living map[int]string // pidfd → "PID MODE/ROLE" as reported
	born   int
	main   *Process // the first that reported
	id     string   // its MCPSCOPE_ID
	ready  bool
	errors []string
	said   []Saying // anything else
}

// A Saying is a message that only its test understands, and when it came.
type Saying struct {
	Text string
	When time.Time
}

// Binaries share the names of sockets, and have pid namespaces of their own.
var sockets, binary = atomic.Int32{}, rand.Uint64()

// NewMembers listens. An abstract address needs no place in a file system and
// has no length to care about.
func NewMembers(t *testing.T) *Members {
	t.Helper()
	m := &Members{living: make(map[int]string)}
	m.Address = fmt.Sprintf("@mcpscope-e2e.%x.%d", binary, sockets.Add(1))
	if err := m.open(); err != nil {
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

func (m *Members) open() error {
	var errs [4]error
	m.sock, errs[0] = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	m.ep, errs[1] = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	m.end, errs[2] = unix.Eventfd(0, unix.EFD_CLOEXEC)
	errs[3] = unix.Bind(m.sock, &unix.SockaddrUnix{Name: m.Address})
	return errors.Join(errs[:]...)
}

func (m *Members) close() {
	for fd := range m.living {
		unix.Close(fd)
	}
	if m.main != nil {
		m.main.Close()
	}
	unix.Close(m.sock)
	unix.Close(m.ep)
	unix.Close(m.end)
}

// UntilReady waits until the first process says that all members are up.
func (m *Members) UntilReady(limit time.Duration) error {
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

// UntilDead waits until no member lives and returns how many do.
func (m *Members) UntilDead(limit time.Duration) int {
	m.wait(limit, func() bool { return len(m.living) == 0 })
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.living)
}

// WantDead fails the test for the members that are left when Patience is over.
func (m *Members) WantDead(t testing.TB) {
	t.Helper()
	if n := m.UntilDead(Patience); n > 0 {
		t.Errorf("%d of %d members left:\n\t%s", n, m.Count(), strings.Join(m.Survivors(), "\n\t"))
	}
}

// Running looks, now, which members can still run code.
func (m *Members) Running() []string {
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

// places returns the groups of the living members.
func (m *Members) places() map[string]string {
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

// Count is how many were ever born.
func (m *Members) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.born
}

// Survivors describes the living members, at most ten of them.
func (m *Members) Survivors() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for fd, text := range m.living {
		all = append(all, fmt.Sprintf("%s: %s", text, Describe(pidOf(fd))))
	}
	sort.Strings(all)
	if len(all) > 10 {
		all = append(all[:10], fmt.Sprintf("and %d more", len(all)-10))
	}
	return all
}

// Kill sends SIGKILL to the members that are left.
func (m *Members) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take()
	for fd := range m.living {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may have ended
	}
}

// Main is the first process that reported itself, and the MCPSCOPE_ID that it has.
func (m *Members) Main() (first *Process, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.main, m.id
}

// AwaitBorn waits until n were born.
func (m *Members) AwaitBorn(n int, limit time.Duration) bool {
	return m.wait(limit, func() bool { return m.born >= n })
}

// Said is all that members have said so far beside their reports.
func (m *Members) Said() []Saying {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.said)
}

// When is when a member first said just this.
func (m *Members) When(text string) (when time.Time, ok bool) {
	all := m.Said()
	i := slices.IndexFunc(all, func(s Saying) bool { return s.Text == text })
	if i < 0 {
		return when, false
	}
	return all[i].When, true
}

// AwaitSaid waits until enough, called with all that was said, is content.
func (m *Members) AwaitSaid(limit time.Duration, enough func([]Saying) bool) bool {
	return m.wait(limit, func() bool { return enough(m.said) })
}

// AwaitLiving waits until no more than n live.
func (m *Members) AwaitLiving(n int, limit time.Duration) bool {
	return m.wait(limit, func() bool { return len(m.living) <= n })
}

// Find returns the pid of a living member by the end of its description, or 0.
func (m *Members) Find(suffix string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take()
	for fd, text := range m.living {
		if strings.HasSuffix(text, suffix) {
			return pidOf(fd)
		}
	}
	return 0
}

// PIDs returns the pids of the living members.
func (m *Members) PIDs() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take()
	var all []int
	for fd := range m.living {
		if pid := pidOf(fd); pid > 0 {
			all = append(all, pid)
		}
	}
	return all
}
