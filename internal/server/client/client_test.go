// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// A pipe or socket is closed when no process has its other end.
func TestClosed(t *testing.T) {
	readIn, writeIn := pipe(t)
	readOut, writeOut := pipe(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	start := func(in, out int) int {
		cmd := exec.Command("sleep", "1000")
		if in >= 0 { // otherwise /dev/null
			theirIn := os.NewFile(uintptr(in), "in")
			theirOut := os.NewFile(uintptr(out), "out")
			defer theirIn.Close()
			defer theirOut.Close()
			cmd.Stdin = theirIn
			cmd.Stdout = theirOut
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it sleeps
			_ = cmd.Wait()         // killed
		})
		return cmd.Process.Pid
	}
	again := dup(t, pair[0])
	piped := start(readIn, writeOut)
	connected := start(pair[0], again)
	others := start(-1, -1)
	want := func(what string, pid int, in, out bool) {
		t.Helper()
		if got := [2]bool{Closed(pid, 0), Closed(pid, 1)}; got != [2]bool{in, out} {
			t.Errorf("%s: stdin and stdout are closed: %v", what, got)
		}
	}
	want("pipes that we hold", piped, false, false)
	want("a socket that we hold", connected, false, false)
	_ = unix.Close(writeIn)
	want("a pipe without writer", piped, true, false)
	_ = unix.Close(readOut)
	want("pipes that nobody holds", piped, true, true)
	_ = unix.Close(pair[1])
	want("a socket that nobody holds", connected, true, true)
	want("/dev/null", others, false, false)
	if end := OtherEndOf(others, 1); end != NoOtherEnd {
		t.Errorf("/dev/null has another end: %v", end)
	}
	if _, slave := openPty(t); OtherEndOf(start(slave, dup(t, slave)), 1) != HeldEnd {
		t.Error("a terminal has no other end")
	}
	want("nobody", 1<<30, false, false)
}

func dup(t *testing.T, fd int) int {
	t.Helper()
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func pipe(t *testing.T) (read, write int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return p[0], p[1]
}

func watch(t *testing.T, fd int, events uint32) Watch {
	t.Helper()
	w, err := newWatch(fd, events)
	if err != nil || w < 0 {
		t.Fatalf("watch: %v, %v", w, err)
	}
	t.Cleanup(func() { _ = unix.Close(int(w)) })
	return w
}

// The set outlives our descriptor, and we are no reader any more.
func TestPipeAfterOurCopyIsClosed(t *testing.T) {
	read, write := pipe(t)
	server, err := unix.Dup(read)
	if err != nil {
		t.Fatal(err)
	}
	hang := watch(t, read, hangUp)
	input := watch(t, read, input)
	_ = unix.Close(read)
	if hang.Fired() || input.Readable() {
		t.Fatal("fired while nothing happened")
	}
	if _, err := unix.Write(write, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if hang.Fired() || !input.Readable() {
		t.Fatalf("after a write: hang-up %v, input %v", hang.Fired(), input.Readable())
	}
	_ = unix.Close(write)
	again := hang.Fired()
	if !hang.Fired() || !again || !input.Readable() {
		t.Fatal("the hang-up with unread input was not seen, or not twice")
	}
	if _, err := unix.Read(server, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if input.Readable() {
		t.Fatal("the hang-up alone counts as input")
	}
	_ = unix.Close(server)
}

// Node's stdin.end() shuts down one direction of a socket; a reader of stdout closes a pipe.
func TestHalfClosed(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	read, write := pipe(t)
	defer unix.Close(write)
	in := watch(t, fds[1], hangUp)
	out := watch(t, write, failure)
	if in.Fired() || out.Fired() {
		t.Fatal("fired while nothing happened")
	}
	_ = unix.Shutdown(fds[0], unix.SHUT_WR)
	_ = unix.Close(read)
	if !in.Fired() || !out.Fired() {
		t.Fatalf("seen: the half-close %v, the reader's end %v", in.Fired(), out.Fired())
	}
}

func TestNothingToWatch(t *testing.T) {
	if w, err := newWatch(9999, hangUp); w != -1 || err != nil || w.Fired() || w.Readable() || w.Full() || w.Unheld() {
		t.Errorf("%v, %v", w, err)
	}
	file, err := os.Open("/sys/kernel/uevent_seqnum") // it has events, all the time
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if w, err := newWatch(int(file.Fd()), hangUp); w != -1 || err != nil {
		t.Errorf("a file of /sys: %v, %v", w, err)
	}
}

// On a socket the kernel counts unread input, whatever has become of the other end.
func TestUnread(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	in := &Side{Server: noServerSide()}
	if err := in.watch(fds[1], -1, -1); err != nil || !in.Socket {
		t.Fatalf("socket: %v, %v", in.Socket, err)
	}
	defer in.Close()
	if in.Unread() {
		t.Fatal("unread before anything was written")
	}
	if _, err := unix.Write(fds[0], []byte("x")); err != nil {
		t.Fatal(err)
	}
	if !in.Unread() {
		t.Fatal("one byte is unread")
	}
	_ = unix.Close(fds[0])
	if !in.Unread() || !in.Stdin.Fired() {
		t.Fatal("one byte is unread behind the end")
	}
	if _, err := unix.Read(fds[1], make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if in.Unread() {
		t.Fatal("the end alone counts as input")
	}
	_ = unix.Close(fds[1])
	if in.Unread() {
		t.Fatal("a socket that no process has is read")
	}
}

// Of a server that its client has started no descriptor is needed to see whether it reads its input, and whether
// its client reads the output: a member has both. Descriptors that have replaced them do not count.
func TestLookAtMembers(t *testing.T) {
	for name, ends := range map[string]func(*testing.T) (read, write int){"pipes": pipe, "sockets": sockets} {
		t.Run(name, func(t *testing.T) {
			readIn, writeIn := ends(t)
			readOut, writeOut := ends(t)
			in := os.NewFile(uintptr(readIn), "in")
			out := os.NewFile(uintptr(writeOut), "out")
			defer in.Close()
			cmd := exec.Command("sleep", "1000")
			cmd.Stdin = in
			cmd.Stdout = out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill() // it sleeps
				_ = cmd.Wait()         // killed
			}()
			pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pidfd)
			side, err := WatchChild(Child{PID: cmd.Process.Pid, PIDFD: pidfd, ClientPIDFD: -1})
			if err != nil || side.IsOnlySeen() {
				t.Fatalf("%+v, %v", side, err)
			}
			defer side.Close()
			if side.Server.Input >= 0 || side.Server.Room != [2]Watch{-1, -1} {
				t.Errorf("it has more than the ends: %+v", side)
			}
			side.Server.Members = func() []int { return []int{os.Getpid(), cmd.Process.Pid} }
			want := func(when string, unread, blocked bool) {
				t.Helper()
				if got := side.Unread(); got != unread {
					t.Errorf("%s: unread input: %v", when, got)
				}
				if got := side.Blocked(); got != blocked {
					t.Errorf("%s: blocked output: %v", when, got)
				}
			}
			want("at the start", false, false)
			if _, err := unix.Write(writeIn, []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := unix.SetNonblock(writeOut, true); err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = unix.Write(writeOut, make([]byte, 4096))
			}
			want("with input and output", true, true)
			side.Rewatch()
			if !side.Server.Input.Readable() {
				t.Error("the input is not watched again")
			}
			side.Close()
			file := side.Output
			side.Output.Ino++
			if side.Blocked() {
				t.Error("another file counts as stdout")
			}
			side.Output = file
			side.Server.Members = func() []int { return nil }
			if side.Blocked() {
				t.Error("without a member its output is blocked")
			}
			_ = out.Close()
			_ = unix.Close(readOut)
			_ = unix.Close(writeIn)
		})
	}
}

func sockets(t *testing.T) (read, write int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pair[0], pair[1]
}

// Without the right to copy a descriptor, as under yama, a look sees the end of stdin. Nothing holds it: when the
// server has ended, the client's write fails.
func TestStdinThatIsOnlySeen(t *testing.T) {
	sleeper := func() (cmd *exec.Cmd, side *Side, write int) {
		read, write := pipe(t)
		stdin := os.NewFile(uintptr(read), "in")
		cmd = exec.Command("sleep", "1000")
		cmd.Stdin = stdin
		err := cmd.Start()
		_ = stdin.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it sleeps
			_ = cmd.Wait()         // killed
		})
		side, err = WatchChild(Child{PID: cmd.Process.Pid, PIDFD: -1, ClientPIDFD: -1, Idle: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(side.Close)
		side.Server.Members = func() []int { return []int{cmd.Process.Pid} }
		side.Rewatch()
		if !side.IsOnlySeen() || side.Server.Input >= 0 || side.HasHungUp() {
			t.Errorf("%+v", side)
		}
		return cmd, side, write
	}
	_, side, write := sleeper()
	_ = unix.Close(write)
	if !side.HasHungUp() {
		t.Error("the end of stdin is not seen")
	}
	cmd, side, write := sleeper()
	_ = cmd.Process.Kill() // it sleeps
	_ = cmd.Wait()         // killed
	if _, err := unix.Write(write, []byte("x")); !errors.Is(err, unix.EPIPE) || side.HasHungUp() {
		t.Errorf("write to a server that has ended: %v", err)
	}
	_ = unix.Close(write)
}

// group is a list of members.
type group struct {
	freeze.Target
	pids []int
}

func (g group) Members() ([]int, error) { return g.pids, nil }

// The other end of stdin may be on its way between two processes: then another process can still write to it.
func TestEndInAMessage(t *testing.T) {
	read, write := pipe(t)
	in := &Side{Server: noServerSide()}
	if err := in.watch(read, -1, -1); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	member := exec.Command("sleep", "1000")
	member.Stdin = os.NewFile(uintptr(read), "stdin")
	keeper := exec.Command("sleep", "1000") // a member that has inherited the client's end
	keeper.Stdout = os.NewFile(uintptr(write), "end")
	for _, cmd := range []*exec.Cmd{member, keeper} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill() // it sleeps, or has ended
			_ = cmd.Wait()         // killed
		}()
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(write), nil, 0); err != nil {
		t.Fatal(err)
	}
	_ = keeper.Stdout.(*os.File).Close() // now the message and the member have it
	members := group{pids: []int{member.Process.Pid, keeper.Process.Pid}}
	abandoned := func() bool {
		_, found := in.FindHolder(members, 0, nil)
		return found == page.NoHolder
	}
	if !abandoned() {
		t.Error("an end that a member has counts")
	}
	_ = keeper.Process.Kill()
	_ = keeper.Wait() // killed
	members.pids = members.pids[:1]
	if abandoned() {
		t.Error("an end in a message does not count")
	}
	_ = unix.Close(pair[0])
	_ = unix.Close(pair[1])
	if !in.Stdin.Fired() || !abandoned() {
		t.Error("a closed end counts")
	}
}

// A process that has the client's end for a moment, as between fork(2) and execve(2), is not the client.
func TestHolderOfAMoment(t *testing.T) {
	type look struct {
		pid   int
		found page.Holder
	}
	for _, c := range []struct {
		looks []look
		want  look
	}{
		{[]look{{0, page.NoHolder}}, look{0, page.NoHolder}},
		{[]look{{7, page.LivingHolder}, {7, page.LivingHolder}}, look{7, page.LivingHolder}},
		{[]look{{7, page.LivingHolder}, {0, page.NoHolder}}, look{0, page.NoHolder}},
		{[]look{{7, page.LivingHolder}, {0, page.UnknownHolder}}, look{0, page.UnknownHolder}},
		{[]look{{7, page.LivingHolder}, {8, page.LivingHolder}, {8, page.LivingHolder}}, look{8, page.LivingHolder}},
	} {
		n := 0
		pid, found := confirm(0, func() (int, page.Holder) {
			n++
			return c.looks[n-1].pid, c.looks[n-1].found
		})
		if got := (look{pid, found}); got != c.want || n != len(c.looks) {
			t.Errorf("%v: %v after %d looks", c.looks, got, n)
		}
	}
}

// A client whose death is ignored is not watched: a guard without a helper would stop the server for it.
func TestClientThatMatters(t *testing.T) {
	for death, want := range map[policy.ClientDeath][2]bool{
		policy.AutoOnClientDeath: {false, true},
		policy.StopOnClientDeath: {true, true},
		policy.IgnoreClientDeath: {false, false},
	} {
		for i, conveyed := range []bool{false, true} {
			in := &Side{Server: noServerSide()}
			in.Conveyed = conveyed
			if got := in.Matters(death); got != want[i] {
				t.Errorf("%s, a pipe: %t: %t, want %t", death, conveyed, got, want[i])
			}
		}
	}
}
