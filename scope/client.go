//go:build linux

package scope

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/stdio"
	"github.com/mcpscope/mcpscope/tree"
)

// clientSide is what tells us about the client: whether it still holds its ends of
// stdin and stdout, and whether it lives. Descriptors only, so that it can be handed
// to the supervisor.
type clientSide struct {
	stdin    *stdio.Watch
	input    *stdio.Watch // what is unread in a pipe; nil for a socket
	stdout   *stdio.Watch
	file     stdio.File // stdin
	answers  stdio.File // stdout
	where    string     // the cgroup that the client has started the launcher in
	mark     tree.Mark  // of the payload's processes
	conveyed bool       // stdin is a pipe or socket, so it has another end
	pidfd    int        // the client, or -1
	main     int        // pidfd of the main process, or -1
	sure     bool       // it is the client that is known, and not a mere spawner
	loop     *poller    // where stdin and stdout are waited for
}

// watchClient looks at our own descriptors 0 and 1 and at our parent.
func watchClient(onDeath ClientDeath) (*clientSide, error) {
	in := &clientSide{pidfd: -1, main: -1}
	in.where, _, _ = proc.ReadCgroup(0) // none, without cgroup2
	var err error
	if in.stdin, err = stdio.New(0, stdio.HangUp); err != nil {
		return nil, err
	}
	if in.stdout, err = stdio.New(1, stdio.Error); err != nil {
		return nil, err
	}
	in.answers, _ = stdio.Identify(1) // a file has nobody who reads it
	if in.file, in.conveyed = stdio.Identify(0); !in.conveyed {
		if onDeath == StopOnClientDeath {
			in.pidfd, err = openClient()
		}
		return in, err
	}
	var st unix.Stat_t
	if unix.Fstat(0, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		if in.input, err = stdio.New(0, stdio.Input); err != nil {
			return nil, err
		}
	}
	in.pidfd, err = openClient()
	return in, err
}

// close gives back all that it has open.
func (in *clientSide) close() {
	for _, w := range []*stdio.Watch{in.stdin, in.input, in.stdout} {
		w.Close()
	}
	for _, fd := range []int{in.pidfd, in.main} {
		if fd >= 0 {
			_ = unix.Close(fd) // a pidfd has nothing to flush
		}
	}
	*in = clientSide{pidfd: -1, main: -1}
}

// openClient returns a pidfd of our parent, or -1 where the parent is init: then it
// either is not the client or its death ends everything anyway.
func openClient() (int, error) {
	parent := os.Getppid()
	if parent <= 1 {
		return -1, nil
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if err == nil && os.Getppid() == parent {
		return fd, nil
	}
	if err == nil {
		_ = unix.Close(fd) // our parent died meanwhile, and the pid may be someone else's
		return -1, nil
	}
	if err == unix.ENOSYS || err == unix.EPERM || err == unix.ESRCH {
		return -1, nil // no pidfds here (Linux 5.3, seccomp): stdin has to tell
	}
	return -1, fmt.Errorf("open pidfd of client %d: %w", parent, err)
}

// hungUp tells whether the client has closed its end of stdin.
func (in *clientSide) hungUp() bool { return in.stdin.Fired() }

// open tells whether the client holds everything it has given us.
func (in *clientSide) open() bool { return !in.stdin.Fired() && !in.stdout.Fired() }

// dead tells whether the client has ended.
func (in *clientSide) dead() bool { return poll.Ended(in.pidfd) }

// awaitEnd waits for a socket's other end to be closed (POLLHUP) or the process of a
// pidfd to end (POLLIN, POLLHUP when it has been reaped), for a bounded time.
func awaitEnd(fd int, events int16, within time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for deadline := time.Now().Add(within); ; {
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// heldByNobodyBut tells whether no process outside of the payload could still write to stdin, or the
// server has closed it itself.
func (in *clientSide) heldByNobodyBut(p payload) bool {
	if in.stdin.Unheld() {
		return true
	}
	members, err := p.Members()
	if err != nil {
		return false
	}
	inside := map[int]bool{os.Getpid(): true}
	for _, pid := range members {
		inside[pid] = true
	}
	// a process of another user's can't be looked at; that it could be the real client, only one is suspected
	// of that is where the client was
	beside := func(pid int) bool {
		where, _, err := proc.ReadCgroup(pid)
		return err != nil || where == in.where
	}
	held, err := stdio.OtherEndHeld(in.file, in.input == nil, func(pid int) bool { return inside[pid] || in.mark.On(pid) }, beside)
	return err == nil && !held
}

// blocked tells whether the server can't write to stdout before the client has read from it.
func (in *clientSide) blocked() bool {
	return in.main >= 0 && !in.stdout.Fired() && stdio.Full(in.main, in.answers)
}

// unread tells whether the server has input to read yet.
func (in *clientSide) unread() bool {
	if in.input != nil {
		return in.input.Readable()
	}
	return in.main >= 0 && stdio.Unread(in.main, in.file)
}

// tokens of what can happen on the client's side
const (
	tokenStdin token = iota + 1
	tokenStdout
	tokenClient
	tokenControl
	tokenMain
	tokenGuard
	tokenShortage
	tokenPeer // the launcher or supervisor, by pidfd: its end of the socket may be someone else's
)

// watch adds everything to the poller.
func (in *clientSide) watch(loop *poller) error {
	in.loop = loop
	for fd, t := range map[int]token{in.stdin.FD(): tokenStdin, in.stdout.FD(): tokenStdout, in.pidfd: tokenClient} {
		if err := loop.add(fd, t); err != nil {
			return err
		}
	}
	return nil
}

// watchAgain goes on waiting after a hang-up that was none.
func (in *clientSide) watchAgain() {
	in.loop.again(in.stdin.FD(), tokenStdin)
	in.loop.again(in.stdout.FD(), tokenStdout)
}

// describeClient is for people: who started the server, our parent unless pid is another.
func describeClient(pid int, name string) clientFacts {
	if pid == 0 {
		pid = os.Getppid()
	}
	c := clientFacts{PID: pid}
	if st, err := proc.ReadStat(c.PID); err == nil {
		c.Name, c.Start = st.Comm, st.StartTime
	}
	if name != "" {
		c.Name = name
	}
	return c
}
