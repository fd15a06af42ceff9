// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// run is one `mcpscope run`, from its start to the launcher's return.
type run struct {
	t       *testing.T
	lane    *lane
	site    *escape.Site
	shot    *shot // nil for a run that is only watched
	name    string
	members *escape.Members
	cmd     *exec.Cmd
	root    *escape.Process
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	watcher *watcher
	bus     *bus // nil where nobody is between mcpscope and its manager

	answered bool
	odd      []string
	swept    bool
}

var runs atomic.Int32

// start starts a server below the filter. We are its client.
func (l *lane) start(t *testing.T, s *shot) *run {
	t.Helper()
	l.reset()
	site := *l.site
	site.T = t
	r := &run{t: t, lane: l, site: &site, shot: s, name: fmt.Sprint("faulty", runs.Add(1)), members: escape.NewMembers(t), stderr: memoryFile(t)}
	ours, theirs := sockets(t)
	line := append([]string{stage, "3", filterText(t)}, l.line(r.name, server, r.members.Address)...)
	if l.beside != "" {
		line = append(line, site.Seen(l.beside))
	}
	if l.backend.way != nil {
		r.bus = l.backend.way.listen(t)
		r.bus.bury = r.bury
		r.cmd = r.bus.command(&site, line)
	} else {
		r.cmd = site.Command(line...)
	}
	r.cmd.ExtraFiles = []*os.File{theirs}
	r.pipes()
	site.Start(l.client, r.cmd)
	for _, f := range []any{theirs, r.cmd.Stdin, r.cmd.Stdout} {
		_ = f.(*os.File).Close() // they have it
	}
	r.cleanUp()
	r.watcher = watch(t, listener(t, ours, r.stderr), r.cmd.Process.Pid, l.backend.tree, s)
	if r.bus != nil {
		r.bus.attach(r.watcher)
	}
	return r
}

func (r *run) pipes() {
	theirIn, in, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.stdin, r.stdout = in, out
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = theirIn, theirOut, r.stderr
}

func (r *run) cleanUp() {
	var err error
	if r.root, err = escape.OpenProcess(r.cmd.Process.Pid); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = r.stdin.Close() // it may be closed
		_ = r.stdout.Close()
		_ = r.cmd.Process.Kill() // it may have ended
		_ = r.cmd.Wait()         // it may have been waited for
		r.root.Close()
	})
}

// sockets are two ends of one.
func sockets(t *testing.T) (ours int, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[0]) })
	return fds[0], os.NewFile(uintptr(fds[1]), "stage")
}

// listener takes what the stage sends.
func listener(t *testing.T, sock int, stderr *os.File) int {
	t.Helper()
	control := make([]byte, unix.CmsgSpace(4))
	if !escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(sock), Events: unix.POLLIN}) {
		t.Fatalf("no listener from the stage: %s", escape.Contents(stderr))
	}
	_, n, _, _, err := unix.Recvmsg(sock, make([]byte, 16), control, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("no listener from the stage: %v; stderr: %s", err, escape.Contents(stderr))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("no listener from the stage: %v", err)
	}
	return fds[0]
}

// live goes through a server's life as its client does.
func (r *run) live() {
	_, _ = r.stdin.WriteString("hello\n") // EPIPE: it shows as no answer
	_ = r.stdout.SetReadDeadline(time.Now().Add(escape.Patience))
	line, err := bufio.NewReader(r.stdout).ReadString('\n')
	r.answered = line == "hello\n"
	if os.IsTimeout(err) {
		r.bad("no answer and no end")
	}
	if r.answered {
		r.contained()
		if r.lane.backend.early {
			r.settled()
		}
	}
	r.watcher.enter("stop")
	_ = r.stdin.Close() // of ours
	if !r.root.Ended(escape.Patience) {
		r.bad("the launcher does not return: %s", escape.Describe(r.root.PID))
		return
	}
	_ = r.cmd.Wait() // its status says it
}

func (r *run) bad(format string, args ...any) { r.odd = append(r.odd, fmt.Sprintf(format, args...)) }

func (r *run) status() syscall.WaitStatus {
	if r.cmd.ProcessState == nil {
		return 0
	}
	return r.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// bury ends all who are in the group, and waits until the kernel has told of it, which it does at most every 10 ms.
func (r *run) bury() {
	for _, dir := range r.lane.left(r.name) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
			r.t.Error(err)
		}
		if err := bed.WaitEmpty(dir, escape.Patience); err != nil {
			r.t.Error(err)
		}
	}
	escape.PollFor(20 * time.Millisecond)
}
