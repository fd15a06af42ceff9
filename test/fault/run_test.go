// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
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
	bus     *bus // nil without a process between mcpscope and its manager

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
	r := &run{t: t, lane: l, site: &site, shot: s, name: fmt.Sprint("faulty", runs.Add(1)), members: escape.NewMembers(t),
		stderr: escape.MemoryFile(t)}
	ours, theirs := sockets(t)
	line := append([]string{stage, "3", filterText(t)}, l.line(r.name, server, r.members.Address)...)
	if l.beside != "" {
		line = append(line, site.Seen(l.beside))
	}
	if l.backend.way != nil {
		r.bus = l.backend.way.listen(t)
		r.cmd = r.bus.command(&site, line)
	} else {
		r.cmd = site.Command(line...)
	}
	r.cmd.ExtraFiles = []*os.File{theirs}
	theirIn, in := bed.Pipe(t)
	out, theirOut := bed.Pipe(t)
	r.stdin = in
	r.stdout = out
	r.cmd.Stdin = theirIn
	r.cmd.Stdout = theirOut
	r.cmd.Stderr = r.stderr
	site.Start(l.client, r.cmd)
	for _, f := range []*os.File{theirs, theirIn, theirOut} {
		_ = f.Close() // they have it
	}
	var err error
	if r.root, err = escape.OpenProcess(r.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		_ = r.cmd.Wait()         // it may have been waited for
		r.root.Close()
	})
	r.watcher = watch(t, listener(t, ours, r.stderr), r.cmd.Process.Pid, r.stderr, s)
	if r.bus != nil {
		r.bus.attach(r.watcher)
	}
	return r
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
	escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(sock), Events: unix.POLLIN})
	_, n, _, _, err := unix.Recvmsg(sock, make([]byte, 16), control, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	fd := escape.PassedFd(control[:n])
	if err != nil || fd < 0 {
		t.Fatalf("no listener from the stage: %v; stderr: %s", err, escape.Contents(stderr))
	}
	return fd
}

// live goes through a server's life as its client does.
func (r *run) live() {
	_, _ = r.stdin.WriteString("hello\n") // EPIPE: it shows as no answer
	if escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(r.stdout.Fd()), Events: unix.POLLIN}) {
		line, _ := bufio.NewReader(r.stdout).ReadString('\n') // without an answer it ends
		r.answered = line == "hello\n"
	} else {
		r.bad("no answer and no end")
	}
	if r.answered {
		r.contained()
	}
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

// verdict is the result of a run.
type verdict string

const (
	usual      verdict = "as usual"     // it answered, and ended as it ends without a fault
	refused    verdict = "refused"      // it never ran, and a line says why
	cutShort   verdict = "cut short"    // it ran, was ended, and a line says why
	ended      verdict = "guard killed" // the launcher was killed, and nothing is left
	swept      verdict = "swept"        // as before, with the help of a sweep
	notReached verdict = "not reached"  // this time the point was not on the way
	broken     verdict = "broken"       // a promise was
)

// contained fails for a server that runs where it must not.
func (r *run) contained() {
	if err := r.members.UntilReady(escape.Patience); err != nil {
		r.bad("the server answers, and its members have not reported: %v", err)
		return
	}
	main, id := r.members.Main()
	if r.lane.backend.tree {
		parent, err := escape.ParentOf(main.PID)
		if err == nil && !main.Ended(0) && parent != r.root.PID && !r.root.Ended(0) {
			r.bad("the server is a child of %d, not of its launcher", parent)
		}
		return
	}
	where, err := bed.ProcessPath(main.PID)
	if err == nil && !main.Ended(0) && !strings.HasSuffix(strings.TrimSuffix(where, ".scope/payload"), "-"+id) {
		r.bad("the server %s is in %s", id, where)
	}
}

// judge waits for the events that must follow a run, and returns the result.
func (r *run) judge() verdict {
	w := r.watcher
	if r.shot != nil && r.shot.unguarded() {
		for _, p := range w.ours() { // the guard, and a helper that it was starting: a sweep before would find them alive
			_ = p.ended()
		}
		r.sweep()
	}
	r.nobodyLeft()
	r.noGroupLeft()
	for _, one := range r.lane.bystanders {
		if !one.Lives() {
			r.bad("a bystander does not answer: %s", one.Name)
		}
	}
	w.mu.Lock()
	r.odd = append(r.odd, w.odd...)
	fired := w.fired
	w.mu.Unlock()
	v := r.told(fired)
	if r.shot != nil && !fired {
		if v != usual {
			r.bad("%s, and the point was not reached", v)
		}
		v = notReached
	}
	if len(r.odd) > 0 {
		return broken
	}
	return v
}

// the verdict on the client's view: a status, and a line
func (r *run) told(fired bool) verdict {
	status := r.status()
	said := escape.Contents(r.stderr)
	if fired && r.shot.kills(launcher) {
		r.lines(said)
		if r.swept {
			return swept
		}
		return ended
	}
	own := status.Exited() && status.ExitStatus() >= 125 && status.ExitStatus() <= 127
	switch {
	case r.answered && status.Signaled() && status.Signal() == unix.SIGKILL && said == "":
		return usual
	case own && r.lines(said) == 1 && r.answered:
		return cutShort
	case own && r.lines(said) == 1:
		return refused
	}
	r.bad("answered %v, status %#x, stderr: %s", r.answered, status, said)
	return broken
}

// lines counts what mcpscope has said but for hints. No other process may write a line.
func (r *run) lines(said string) int {
	n := 0
	for line := range strings.Lines(said) {
		switch {
		case strings.HasPrefix(line, "mcpscope: hint: "):
		case strings.HasPrefix(line, "mcpscope: cannot "):
			n++
		default:
			r.bad("stderr: %s", line)
		}
	}
	return n
}

// explain is for a run that broke a promise.
func (r *run) explain() string {
	return fmt.Sprintf("%s\n\tstatus %#x, answered %v, stderr: %s", strings.Join(r.odd, "\n\t"), r.status(), r.answered, escape.Contents(r.stderr))
}

// sweep ends what has no guard any more.
func (r *run) sweep() {
	o, err := escape.Finish(r.lane.client, r.site.Command(mcpscope, "sweep", "--quiet"))
	if err != nil || o.Status != 0 || o.Stderr != "" {
		r.bad("sweep: %v: status %#x: %s", err, o.Status, o.Stderr)
	}
	r.swept = r.swept || strings.Contains(o.Stdout, r.name)
}

// nobodyLeft: the filter has no task any more, and none of those is a zombie.
func (r *run) nobodyLeft() {
	select {
	case <-r.watcher.over:
	case <-pace.After(escape.Patience):
		for _, p := range r.watcher.processes() {
			if p.alive() {
				r.bad("left: %s: %s", p.role, escape.Describe(p.pid))
			}
		}
		return
	}
	for _, p := range r.watcher.processes() {
		if !p.reaped() {
			r.bad("a zombie: %s %d", p.role, p.pid)
		}
	}
	if left := r.members.Running(); len(left) > 0 {
		r.bad("left: %q", left)
	}
}

// noGroupLeft: after a sweep, and then only what is so young that it may be of a start. When
// it is older the next sweep removes that, too.
func (r *run) noGroupLeft() {
	if r.groupsGone(removal) {
		return
	}
	r.sweep()
	for _, dir := range r.lane.left(r.name) {
		if armed(dir) && escape.AwaitRemoval(dir, escape.Patience) != nil {
			r.bad("a group is left after a sweep: %s", escape.Tree(dir))
		}
		_ = os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Minute)) // it may just be removed
	}
	r.sweep()
	if !r.groupsGone(escape.Patience) {
		r.bad("an old group is left after a sweep: %q", r.lane.left(r.name))
	}
}

// removal is the time that systemd takes for it.
const removal = time.Second

// groupsGone waits for the process that removes them, if another one does.
func (r *run) groupsGone(limit time.Duration) bool {
	for _, dir := range r.lane.left(r.name) {
		if !r.lane.backend.managed || escape.AwaitRemoval(dir, limit) != nil {
			return false
		}
	}
	return true
}
