// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// The input of a candidate is copied, and stays unread.
var kinds = map[string]func() ([2]int, error){
	"pipe": func() (fds [2]int, err error) { return fds, unix.Pipe2(fds[:], unix.O_CLOEXEC) },
	"socket": func() ([2]int, error) {
		return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	},
}

// startProgram starts a program that may be a server, and reads nothing; ours is its client's end.
func startProgram(t *testing.T, open func() ([2]int, error)) (c *program, ours *os.File) {
	t.Helper()
	fds, err := open()
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.NewFile(uintptr(fds[0]), "stdin")
	ours = os.NewFile(uintptr(fds[1]), "ours")
	t.Cleanup(func() { _ = ours.Close() })
	cmd := exec.Command("sleep", "infinity")
	cmd.Stdin = stdin
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it sleeps
		_ = cmd.Wait()         // killed
	})
	_ = stdin.Close() // the child has it
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(pidfd) })
	return &program{pid: cmd.Process.Pid, pidfd: pidfd, stdin: fileAt(cmd.Process.Pid, 0)}, ours
}

// A program that has started is read when its client writes, and forgotten when it has ended. Then its client
// gets an error: no other process has its stdin.
func TestAwait(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			c, ours := startProgram(t, open)
			p := newPeeker()
			p.reopen(c)
			arrived := make(chan arrival)
			wait := func() { arrived <- awaitEvent(p, c) }
			go wait()
			if _, err := ours.WriteString("x"); err != nil {
				t.Fatal(err)
			}
			if got := <-arrived; got != inputArrived {
				t.Errorf("after a write: %v", got)
			}
			if got := p.tap.receive(); string(got.text) != "x" || got.closed {
				t.Errorf("%q, closed: %v", got.text, got.closed)
			}
			takeByte(t, c)
			go wait()
			if err := unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0); err != nil {
				t.Fatal(err)
			}
			if got := <-arrived; got != programEnded {
				t.Errorf("after the program's end: %v", got)
			}
			p.close()
			if _, err := ours.WriteString("x"); !errors.Is(err, unix.EPIPE) {
				t.Errorf("a write to a dead program: %v", err)
			}
		})
	}
}

// A stdin that no process can write to any more is closed, after its last byte was read.
func TestClosed(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			c, ours := startProgram(t, open)
			p := newPeeker()
			defer p.close()
			p.reopen(c)
			if _, err := ours.WriteString("x"); err != nil {
				t.Fatal(err)
			}
			_ = ours.Close() // the test's end of it
			for _, want := range []unread{{[]byte("x"), false}, {nil, true}} {
				if got := awaitEvent(p, c); got != inputArrived {
					t.Fatalf("%v", got)
				}
				got := p.tap.receive()
				if string(got.text) != string(want.text) || got.closed != want.closed {
					t.Errorf("%q, closed: %v", got.text, got.closed)
				}
				if !want.closed {
					takeByte(t, c)
				}
			}
		})
	}
}

// awaitEvent goes on after the looks whether the program still has its stdin.
func awaitEvent(p *peeker, c *program) (what arrival) {
	for what == nothingArrived {
		what = p.awaitArrival(c.pidfd, -1, time.Time{})
	}
	return what
}

// The copy of a stdin that its program has closed is closed, too, so that its client sees the end.
func TestProgramClosesItsStdin(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			fds, err := open()
			if err != nil {
				t.Fatal(err)
			}
			theirs := os.NewFile(uintptr(fds[0]), "stdin")
			ours := os.NewFile(uintptr(fds[1]), "ours")
			defer ours.Close()
			cmd := exec.Command("sh", "-c", "read -r _; exec </dev/null; exec sleep infinity")
			cmd.Stdin = theirs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill() // it sleeps
				_ = cmd.Wait()         // killed
			}()
			_ = theirs.Close() // the child has it
			c := &program{pid: cmd.Process.Pid, stdin: fileAt(cmd.Process.Pid, 0)}
			if c.pidfd, err = unix.PidfdOpen(c.pid, 0); err != nil {
				t.Fatal(err)
			}
			defer closeAll(c.pidfd)
			p := newPeeker()
			defer p.close()
			p.reopen(c)
			if _, err := ours.WriteString("\n"); err != nil {
				t.Fatal(err)
			}
			for p.tap != nil {
				if p.awaitArrival(c.pidfd, -1, time.Time{}) == inputArrived {
					p.tap.receive()
				}
				p.reopen(c)
			}
			if _, err := ours.WriteString("x"); !errors.Is(err, unix.EPIPE) {
				t.Errorf("a write to a stdin that was closed: %v", err)
			}
		})
	}
}

// takeByte reads a byte of a candidate's stdin, as that would.
func takeByte(t *testing.T, c *program) {
	t.Helper()
	fd := c.openStdin()
	defer closeAll(fd)
	if _, err := unix.Read(fd, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// blocking calls f with each kind of stdin, which the program has made non-blocking or not.
func blocking(t *testing.T, f func(t *testing.T, c *program, ours *os.File, blocks bool)) {
	for name, open := range kinds {
		for _, blocks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, blocks: %v", name, blocks), func(t *testing.T) {
				c, ours := startProgram(t, open)
				if fd := c.openStdin(); !blocks {
					if err := unix.SetNonblock(fd, true); err != nil {
						t.Fatal(err)
					}
					closeAll(fd)
				} else {
					closeAll(fd)
				}
				f(t, c, ours, blocks)
			})
		}
	}
}

// The thread waits in the call that copies. A socket that the program has made non-blocking is polled: the
// watcher has no other.
func TestTapWaitsInTheCall(t *testing.T) {
	blocking(t, func(t *testing.T, c *program, _ *os.File, blocks bool) {
		p := newPeeker()
		defer p.close()
		p.reopen(c)
		p.tap.requestCopy()
		want := unix.SYS_TEE
		switch {
		case p.tap.socket && blocks:
			want = unix.SYS_RECVFROM
		case p.tap.socket:
			want = unix.SYS_PPOLL
		}
		file := fmt.Sprintf("/proc/self/task/%d/syscall", p.tap.thread)
		for got := ""; got != fmt.Sprint(want); runtime.Gosched() {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ = strings.Cut(string(text), " ")
		}
	})
}

// A program that reads while the kernel copies has not lost its client: tee(2) returns 0 then, too.
func TestReadMeanwhile(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			c, ours := startProgram(t, open)
			p := newPeeker()
			defer p.close()
			p.reopen(c)
			theirs := c.openStdin()
			defer closeAll(theirs)
			for range 20_000 {
				p.tap.requestCopy()
				if _, err := ours.WriteString("x"); err != nil {
					t.Fatal(err)
				}
				if _, err := unix.Read(theirs, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				if len(p.tap.copied) > 0 && p.tap.receive().closed {
					t.Fatal("it is closed")
				}
			}
		})
	}
}

// A thread that copies runs before the program, if the watcher may have that.
func TestTapPriority(t *testing.T) {
	c, _ := startProgram(t, kinds["pipe"])
	p := newPeeker()
	defer p.close()
	p.reopen(c)
	got, err := unix.SchedGetAttr(p.tap.thread, 0)
	if err != nil {
		t.Fatal(err)
	}
	allowed := make(chan bool)
	go func() {
		runtime.LockOSThread() // and never unlocked: it ends with the goroutine
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
		allowed <- unix.SchedSetAttr(0, &attr, 0) == nil
	}()
	if <-allowed != (got.Policy == unix.SCHED_FIFO) {
		t.Errorf("%+v", got)
	}
}

// A thread that waits for input ends at once, also while the client writes, and when there is no room for
// another descriptor. It leaves none.
func TestTapEnds(t *testing.T) {
	blocking(t, func(t *testing.T, c *program, ours *os.File, _ bool) {
		p := newPeeker()
		defer p.close()
		for i := range 200 {
			before := descriptors(t)
			p.reopen(c)
			p.tap.requestCopy()
			if i%2 == 1 {
				if _, err := ours.WriteString("x"); err != nil {
					t.Fatal(err)
				}
				takeByte(t, c)
			}
			free := fillFiles(t)
			p.closeTap()
			free()
			if after := descriptors(t); after > before {
				t.Fatalf("%d descriptors, and %d before", after, before)
			}
		}
	})
}

// fillFiles leaves no room for another descriptor until free is called.
func fillFiles(t *testing.T) (free func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	setLimit := func(soft uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
	}
	setLimit(128) // more than there are
	var nulls []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		nulls = append(nulls, fd)
	}
	return func() {
		setLimit(was.Cur)
		closeAll(nulls...)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// An answer is found at the client, whether that is the gateway or a process below it, and stays unread. No
// copy of the client's end is kept.
func TestAnswer(t *testing.T) {
	for name, command := range map[string][]string{
		"by a child":              {"sh", "-c", "echo answer; read line"},
		"by a child of its shell": {"sh", "-c", `(echo answer; read line); :`},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, err := kinds["socket"]()
			if err != nil {
				t.Fatal(err)
			}
			theirs := os.NewFile(uintptr(stdout[0]), "theirs")
			ours := os.NewFile(uintptr(stdout[1]), "ours")
			defer ours.Close()
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Stdout = theirs
			stdin, err := cmd.StdinPipe() // the program lives until it is closed
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = theirs.Close() // the child has it
			pid := cmd.Process.Pid
			linux.AwaitUntil(time.Time{}, int(ours.Fd()), unix.POLLIN)
			for children, _ := proc.Children(pid); len(children) > 0; children = nil {
				pid = children[0]
			}
			before := descriptors(t)
			p := newPeeker()
			for _, gateway := range []int{os.Getpid(), os.Getpid(), os.Getppid()} {
				if gateway != os.Getpid() {
					p.peer.close() // it is searched anew
				}
				p.openAnswer(&program{pid: pid}, gateway)
				if got := p.peekAnswer(); string(got) != "answer\n" {
					t.Errorf("%q", got)
				}
			}
			p.close()
			if after := descriptors(t); after > before {
				t.Errorf("%d descriptors, and %d before", after, before)
			}
			_ = stdin.Close() // its end
			_ = cmd.Wait()    // as above
		})
	}
}

func TestUnread(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			c, ours := startProgram(t, open)
			if got := c.unread(); len(got) > 0 {
				t.Errorf("before anything is written: %q", got)
			}
			want := bytes.Repeat([]byte("x"), mcp.LineMost/2)
			if _, err := ours.Write(want); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := c.unread(); !bytes.Equal(got, want) {
					t.Errorf("%d bytes, want %d", len(got), len(want))
				}
			}
			c.stdin.Ino++
			if got := c.unread(); len(got) > 0 {
				t.Errorf("of another file: %d bytes", len(got))
			}
		})
	}
}

// It is the same file, however it is found, and closed afterwards.
func TestFileOfCaller(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	own, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{ends[0], ends[1], null, own, 1 << 20} {
		if got, want := fileOfCaller(os.Getpid(), fd), fileAt(os.Getpid(), fd); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	_ = unix.Close(ends[1])
	linux.AwaitWithin(ends[0], unix.POLLIN, 15*time.Second) // its copy is closed by and by
	if n, _, err := unix.Recvfrom(ends[0], make([]byte, 1), unix.MSG_DONTWAIT); n != 0 || err != nil {
		t.Errorf("a copy of the other end is open: %d, %v", n, err)
	}
	for _, fd := range []int{ends[0], null, own} {
		_ = unix.Close(fd)
	}
}
