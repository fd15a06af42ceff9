//go:build linux

package scope

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/spawn"
)

// On a terminal the main process is in the launcher's process group. What the terminal,
// or anyone, sends to the group has then reached it already and must not be passed on;
// what was sent to the launcher alone must be. Nothing in a signal tells which. So there
// is a third process in the group, the sentinel, whom nobody knows: what it gets as well
// was for the group.

// sentinel is that process as the launcher sees it.
type sentinel struct {
	fd     int                       // a byte for each signal that it gets, and 0 for an answer
	heard  map[unix.Signal]time.Time // it has got these, and the launcher not yet
	direct map[unix.Signal]int       // the launcher has got these, and it not yet
	asked  map[unix.Signal]int       // those of which it was asked
	timer  *time.Timer               // until it is asked, or has to have answered
	armed  bool
}

const (
	// reached is what the kernel takes to send a signal to all of a group.
	reached = 5 * time.Millisecond
	// answered is what the sentinel takes for an answer on a machine that has much to do. Then it
	// counts as not there.
	answered = time.Second
	// together is how long a signal that it has got may be one that the launcher is about to get.
	together = 100 * time.Millisecond
)

// startSentinel returns when it is on its post.
func startSentinel() (*sentinel, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create socket: %w", err)
	}
	err = (&spawn.Sentinel{Socket: fds[1], Signals: bits(forwarded())}).Start()
	_ = unix.Close(fds[1]) // the sentinel has it
	if err == nil {
		_, err = unix.Read(fds[0], make([]byte, 1))
	}
	if err == nil {
		err = unix.SetNonblock(fds[0], true)
	}
	if err != nil {
		_ = unix.Close(fds[0]) // a socket
		return nil, fmt.Errorf("start the sentinel: %w", err)
	}
	return &sentinel{fd: fds[0], heard: map[unix.Signal]time.Time{}, direct: map[unix.Signal]int{}, timer: stoppedTimer()}, nil
}

// bits is a set of signals as the kernel has it.
func bits(all []os.Signal) uint64 {
	var set uint64
	for _, sig := range all {
		set |= 1 << (sig.(unix.Signal) - 1)
	}
	return set
}

// caught is told what the launcher has got, and tells whether the whole group has. known
// is false where the sentinel has to be asked first.
func (s *sentinel) caught(sig unix.Signal) (group, known bool) {
	if when, ok := s.heard[sig]; ok && time.Since(when) < together {
		delete(s.heard, sig)
		return true, true
	}
	s.direct[sig]++
	s.arm()
	return false, false
}

func (s *sentinel) arm() {
	if !s.armed && len(s.direct) > 0 {
		s.armed = true
		s.timer.Reset(reached)
	}
}

// hear returns what was for the group, and what for the launcher alone. gone says that there
// is no sentinel any more.
func (s *sentinel) hear() (group, alone []unix.Signal, gone bool) {
	buf := make([]byte, 128)
	n, err := unix.Read(s.fd, buf)
	for _, b := range buf[:max(n, 0)] {
		sig := unix.Signal(b)
		switch {
		case b == 0:
			alone = append(alone, s.given()...)
		case take(s.asked, sig), take(s.direct, sig):
			group = append(group, sig)
		default:
			s.heard[sig] = time.Now()
		}
	}
	return group, alone, n == 0 && err == nil
}

func take(from map[unix.Signal]int, sig unix.Signal) bool {
	if from[sig] == 0 {
		return false
	}
	if from[sig]--; from[sig] == 0 {
		delete(from, sig)
	}
	return true
}

// elapsed asks the sentinel, or gives up on it.
func (s *sentinel) elapsed() (alone []unix.Signal) {
	if s.asked != nil {
		return s.given()
	}
	s.asked, s.direct = s.direct, map[unix.Signal]int{}
	s.timer.Reset(answered)
	if _, err := unix.Write(s.fd, []byte{0}); err != nil {
		return s.given()
	}
	return nil
}

// given are those of which it was asked, and that it has not got. A terminal that hangs up sends
// SIGHUP and SIGCONT to the leader of its session; the second comes with the first anyway, when
// that is passed on.
func (s *sentinel) given() []unix.Signal {
	var all []unix.Signal
	if s.asked[unix.SIGHUP] > 0 && s.asked[unix.SIGCONT] > 0 {
		s.asked[unix.SIGCONT]--
	}
	for sig, times := range s.asked {
		for range times {
			all = append(all, sig)
		}
	}
	s.timer.Stop()
	s.asked, s.armed = nil, false
	s.arm()
	return all
}

// all are those that nobody will tell about any more.
func (s *sentinel) all() []unix.Signal {
	all := s.given()
	s.asked, s.direct = s.direct, nil
	return append(all, s.given()...)
}
