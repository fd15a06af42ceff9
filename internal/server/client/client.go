// SPDX-License-Identifier: Apache-2.0

// Package client is the client's side of a server: whether the client lives, and whether it holds its ends
// of stdin and stdout. It reports, and decides nothing.
package client

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Side is the client's side of a server, in descriptors that can be passed to a helper.
type Side struct {
	protocol.ClientSide
	Stdin  Watch // the hang-up of the client's end
	Stdout Watch // the same
	PIDFD  int   // the client, or -1 where its death does not matter
	Server ServerSide
}

// ServerSide has the descriptors for the other side of the same streams: whether the server reads and can
// write.
type ServerSide struct {
	Input Watch    // what is unread
	Room  [2]Watch // in stdout and stderr
	// Terminal is stdin, if that is one whose program is frozen when it is idle. Then Input is its input.
	Terminal Terminal
	Main     int // pidfd of the main process, if the client has started it; or -1
	// Members are the processes of a server that the client has started; otherwise it is nil. Such a server
	// has no Input and Room, and the members' own descriptors serve instead: a gateway can have hundreds of
	// servers.
	Members func() []int
}

// noServerSide has no descriptor.
func noServerSide() ServerSide {
	return ServerSide{Input: -1, Room: [2]Watch{-1, -1}, Terminal: -1, Main: -1}
}

// OfChild is the side of a server that the client has started, before its input is watched.
func OfChild(main int, members func() []int) ServerSide {
	s := noServerSide()
	s.Main = main
	s.Members = members
	return s
}

// WatchParent watches our descriptors 0 and 1, and our parent.
func WatchParent(p policy.Policy) (*Side, error) {
	in := &Side{PIDFD: -1, Server: noServerSide()}
	in.Where, _ = proc.ReadCgroup(0) // none, without cgroup2
	err := in.watch(0, 1, 2)
	if err == nil && in.Matters(p.OnClientDeath) {
		in.PIDFD = openClient()
	}
	if err == nil && !in.Conveyed && p.IdleFreeze > 0 {
		err = in.watchTerminal()
	}
	return in, err
}

// Matters reports whether the death of the client can stop the server. Where it can't, no process watches it,
// so a guard without a helper does not stop the server for it either.
func (in *Side) Matters(death policy.ClientDeath) bool {
	switch death {
	case policy.IgnoreClientDeath:
		return false
	case policy.StopOnClientDeath:
		return true
	}
	return in.Conveyed
}

// watchTerminal watches the input of a terminal that is descriptor 0. The kernel reports it to processes of
// another process session, too, and none of it is read.
func (in *Side) watchTerminal() (err error) {
	in.Server.Terminal, err = openTerminal(0)
	if err == nil && in.Server.Terminal >= 0 {
		in.Server.Input, err = newWatch(0, input)
	}
	return err
}

// Child is a process of the client that becomes a server. The caller keeps it from forking meanwhile.
type Child struct {
	PID         int
	PIDFD       int
	ClientPIDFD int
	Inherited   bool // its stdin is the client's own: who holds the other end is not its client
	Idle        bool // an event for input is wanted
}

// WatchChild watches the descriptors 0 and 1 of a process. Where its stdin cannot be copied (yama, docker's
// filter) only a look shows its end: see IsOnlySeen. To hold a reading end would keep the client's write from
// failing when the server has ended.
func WatchChild(r Child) (in *Side, err error) {
	in = &Side{PIDFD: r.ClientPIDFD, Server: OfChild(r.PIDFD, nil)}
	stdin, refused := unix.PidfdGetfd(r.PIDFD, 0, 0) // for all but an ancestor, by yama
	if refused != nil {
		stdin = r.openStdin()
	}
	defer unix.Close(stdin)
	// not opened once more: another writer would keep the client from seeing the end of stdout
	stdout, _ := unix.PidfdGetfd(r.PIDFD, 1, 0)
	defer unix.Close(stdout) // EBADF for -1
	err = in.watchEnds(stdin, stdout)
	in.Conveyed = in.Conveyed && !r.Inherited
	if refused != nil { // the set is empty without the file
		_ = unix.Close(int(in.Stdin))
		in.Stdin = -1
	}
	if err == nil && r.Idle && in.Conveyed && refused == nil {
		in.Server.Input, err = newWatch(stdin, input)
	}
	return in, err
}

// IsOnlySeen reports whether no event says that the client has closed stdin: HasHungUp has to be asked.
func (in *Side) IsOnlySeen() bool { return in.Conveyed && in.Stdin < 0 }

// HasHungUp reports whether the client has closed its end of a stdin that a member still has. It holds that
// for a moment.
func (in *Side) HasHungUp() bool {
	now, has := in.look(0, in.File, 0)
	return has && now&unix.POLLHUP != 0
}

// Rewatch watches the input again, an event for which is wanted, after the process before has ended.
func (in *Side) Rewatch() {
	if in.IsOnlySeen() {
		return
	}
	stdin := in.copyOf(0, in.File)
	if stdin < 0 {
		return
	}
	defer unix.Close(stdin)
	in.Server.Input, _ = newWatch(stdin, input) // -1 without a descriptor: then it is never frozen
}

// look returns those of the events that a member's descriptor has now. has: a member has that file
// as the descriptor of that number.
func (in *Side) look(number int, file protocol.File, events int16) (now int16, has bool) {
	fd := in.copyOf(number, file)
	if fd < 0 {
		return 0, false
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	_, _ = unix.Ppoll(fds, new(unix.Timespec), nil) // without a wait it is not interrupted
	return fds[0].Revents, true
}

// copyOf returns a copy of the descriptor of a member, or -1 if none has that file there. It is for a moment
// alone: with it the client sees no end.
func (in *Side) copyOf(number int, file protocol.File) (fd int) {
	for _, pid := range in.Server.Members() {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		fd, err := unix.PidfdGetfd(pidfd, number, 0)
		_ = unix.Close(pidfd)
		if err != nil && number == 0 { // by yama
			fd = Child{PID: pid}.openStdin()
		}
		if f, _ := Identify(fd, ""); fd >= 0 && f == file {
			return fd
		}
		_ = unix.Close(fd) // another file, or -1
	}
	return -1
}

// openStdin opens a pipe once more. The new description reports a hang-up only while it is open. A socket
// cannot be opened.
func (r Child) openStdin() int {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	fd, _ := unix.Open(proc.DescriptorPath(r.PID, 0), flags, 0)
	if _, kind := Identify(fd, ""); kind != unix.S_IFIFO {
		_ = unix.Close(fd) // a file has no other end
		return -1
	}
	return fd
}

// watch registers the descriptors that a server has as 0, 1 and 2; -1 for none.
func (in *Side) watch(stdin, stdout, stderr int) error {
	err := in.watchEnds(stdin, stdout)
	if err == nil && in.Conveyed {
		in.Server.Input, err = newWatch(stdin, input)
	}
	if err == nil {
		in.Server.Room[0], err = newWatch(stdout, room)
	}
	if err == nil {
		in.Server.Room[1], err = newWatch(stderr, room)
	}
	return err
}

// watchEnds watches the client's ends of stdin and stdout, and nothing else yet.
func (in *Side) watchEnds(stdin, stdout int) (err error) {
	in.Stdin = -1
	in.Stdout = -1
	file, kind := Identify(stdin, "")
	in.Socket = kind == unix.S_IFSOCK
	in.Conveyed = in.Socket || kind == unix.S_IFIFO
	if in.Conveyed {
		in.File = file
	}
	in.Output, _ = Identify(stdout, "")
	if in.Stdin, err = newWatch(stdin, hangUp); err != nil {
		return err
	}
	in.Stdout, err = newWatch(stdout, failure)
	return err
}

// Identify returns the file of fd, or behind a link if that is not "", and the type in its mode; 0 for none.
// It sends no request to a file system, which may hang.
func Identify(fd int, link string) (f protocol.File, kind uint32) {
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	var st unix.Statx_t
	if unix.Statx(fd, link, how, unix.STATX_TYPE|unix.STATX_INO, &st) != nil {
		return protocol.File{}, 0
	}
	f = protocol.File{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
	return f, uint32(st.Mode) & unix.S_IFMT
}

// Close closes the sets, which another process may have inherited, and no pidfd: a caller may share it.
func (in *Side) Close() {
	server := &in.Server
	for _, w := range []*Watch{&in.Stdin, &in.Stdout, &server.Input, &server.Room[0], &server.Room[1]} {
		_ = unix.Close(int(*w)) // nothing to flush; EBADF for -1
		*w = -1
	}
	_ = unix.Close(int(server.Terminal)) // no data can be lost; EBADF for -1
	server.Terminal = -1
}

// openClient returns a pidfd of our parent, or -1 if that is init: then init is not the client, or its end
// stops everything anyway.
func openClient() int {
	parent := os.Getppid()
	if parent <= 1 {
		return -1
	}
	fd, _ := unix.PidfdOpen(parent, 0) // -1 with seccomp: only stdin reports the end of the client
	if os.Getppid() != parent {
		_ = unix.Close(fd) // our parent exited meanwhile, and the pid may be reused
		return -1
	}
	return fd
}

// Unread reports whether the server has unread input.
func (in *Side) Unread() bool {
	if in.Socket { // its hang-up looks like input
		s, _ := findSocket(in.File.Ino)
		return s.unread > 0
	}
	if in.Server.Input < 0 && in.Server.Members != nil {
		events, _ := in.look(0, in.File, unix.POLLIN) // none without such a member
		return events&unix.POLLIN != 0
	}
	return in.Server.Input.Readable()
}

// Blocked reports whether the server's output waits for the client.
func (in *Side) Blocked() bool {
	if in.Server.Room[0] < 0 && in.Server.Members != nil {
		events, has := in.look(1, in.Output, unix.POLLOUT)
		return has && events == 0
	}
	return in.Server.Room[0].Full()
}

// BlockedErrors reports whether a member waits to write to stderr.
func (in *Side) BlockedErrors() bool {
	if in.Server.Room[1] < 0 && in.Server.Members != nil {
		waits := func(pid int) bool { return !AwaitRoom(pid, 2, 0) }
		return slices.ContainsFunc(in.Server.Members(), waits)
	}
	return in.Server.Room[1].Full()
}

// Add has a loop report the events of this side.
func (in *Side) Add(to *loop.Loop) error {
	return errors.Join(to.Add(int(in.Stdin), loop.TokenStdin), to.Add(int(in.Stdout), loop.TokenStdout),
		to.Add(in.PIDFD, loop.TokenClient), to.Add(in.Server.Main, loop.TokenMain))
}

// Watch is an epoll set with one descriptor registered in it, or -1. It polls readable while there is an
// event.
type Watch int

// Events of a Watch, beside hang-up and error.
const (
	hangUp  = unix.EPOLLRDHUP // the peer closed it, or shut down its writing side (node's stdin.end())
	failure = 0               // stdout has no reader
	input   = unix.EPOLLIN
	room    = unix.EPOLLOUT
)

// newWatch registers the open file of fd, which may be closed afterwards. It returns -1 without an error
// for a file or /dev/null, which have no events. Those of /sys and of cgroup2 do, which are no client's.
func newWatch(fd int, events uint32) (Watch, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		return -1, nil
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create epoll set: %w", err)
	}
	err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events})
	if err == nil {
		return Watch(epoll), nil
	}
	_ = unix.Close(epoll) // an empty set
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBADF) {
		return -1, nil
	}
	return -1, fmt.Errorf("watch descriptor %d: %w", fd, err)
}

// Fired reports whether the other end is closed now. The set is level-triggered, so several processes can
// share it.
func (w Watch) Fired() bool { return w.now() != 0 }

// Unheld reports whether no process has the registered descriptor: the kernel removes the registration with
// the open file.
func (w Watch) Unheld() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w)) // ENOENT for -1
	return err == nil && !bytes.Contains(b, []byte("tfd:"))
}

// Readable reports whether there is input. A hang-up does not count: that of a terminal comes with EPOLLIN.
func (w Watch) Readable() bool {
	now := w.now()
	isEnd := now&(unix.EPOLLERR|unix.EPOLLHUP) == unix.EPOLLERR|unix.EPOLLHUP
	return now&unix.EPOLLIN != 0 && !isEnd
}

func (w Watch) now() uint32 {
	var ev [1]unix.EpollEvent // stays zero without an event, or a set
	_, _ = unix.EpollWait(int(w), ev[:], 0)
	return ev[0].Events
}

// Full reports whether a write would block. Without the descriptor in any process nothing blocks.
func (w Watch) Full() bool { return w >= 0 && w.now() == 0 && !w.Unheld() }
