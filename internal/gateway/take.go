// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/glob"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/notify"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
)

// consider decides about one process before it goes on.
func (w *watcher) consider(r *notify.Request, o origin, stdin file, piped bool) {
	defer w.listener.Continue(r)
	had := locksOf(o.pid)
	outer := w.candidates.tagged(had.tag())
	if had.inGroup() || outer != nil && outer.is(taken) || launcher.In(o.pid, w.PID) {
		return // it belongs to a server
	}
	c, missing := look(o.pid, r)
	if c.Argv == nil && !missing {
		w.blind.Store(true)
	}
	if missing || !w.listener.Valid(r) {
		return
	}
	c.Stdio, c.Inherited = piped, stdin.same(w.Stdin)
	w.decide(seen{origin: o, Caller: c, stdin: stdin, had: had, outer: outer})
}

// seen is a process that executes a program, or has.
type seen struct {
	origin
	Caller
	stdin file
	had   locks
	outer *candidate // whose tag it has
}

// decide puts a server into a group, and what may be one among the candidates.
func (w *watcher) decide(s seen) {
	own := s.outer // one that it is itself, or that it has its stdin from
	if own != nil && !own.in.same(s.stdin) {
		own = nil
	}
	verdict, why := w.Rules.Decide(s.Caller)
	switch {
	case verdict == Taken:
		w.takeNow(s, own, why)
	case verdict == Left && own != nil && own.pid() == s.pid && own.decide(left):
		w.leave(own, why)
	case verdict == Left:
		if s.direct || s.Stdio { // what a tool runs may be a lot
			w.explain(s.pid, "left", s.Argv, why)
		}
		switch {
		case s.Stdio:
			w.board.left(s.Argv, why)
		case s.direct && namesMCP(name.Derive(s.Argv)):
			w.board.left(s.Argv, "it is not spoken to on stdin; if it is a server that listens (HTTP, SSE), --match would take it")
		}
		switch {
		case isRun(s.Argv): // it tags its server, which it does not where the limit is in use
			untag(s.pid, s.had)
		case s.Argv != nil && glob.Find(w.Rules.Except, s.Argv) != "":
			w.exclude(s)
		}
	case own != nil && own.pid() != s.pid: // it reads what that would read
		own.heir.Store(int32(s.pid))
	case own != nil:
	case len(s.Argv) > 1 && w.served.has(s.Argv):
		w.takeNow(s, nil, servedBefore)
	default:
		if named, why := byName(s.Caller); w.Listener < 0 && s.direct && named == Taken { // by now it may have been spoken to
			w.takeNow(s, nil, why)
			return
		}
		w.listenTo(s)
	}
}

// servedBefore: a client that connects again starts the same command. One argument at least, for an interpreter
// alone runs whatever it reads.
const servedBefore = "the same command was spoken to in MCP before"

// takeNow is for a server that is known before it runs.
func (w *watcher) takeNow(s seen, own *candidate, why string) {
	if own != nil {
		if !own.decide(taken) {
			return // it is being taken
		}
		if own.pid() == s.pid {
			own.begun.Store(false) // it executes another program
		}
		w.ears.forget(own)
		w.capture(own, why)
		return
	}
	c, err := newCandidate(s)
	if err != nil {
		return // it has ended
	}
	c.state.Store(int32(taken))
	w.capture(c, why)
}

// exclude remembers what is none, for what it starts with the same stdin.
func (w *watcher) exclude(s seen) {
	if c, err := newCandidate(s); err == nil {
		c.state.Store(int32(left))
		if c.retag(s.had) == nil {
			w.candidates.enter(c)
			w.candidates.leave(c)
		}
		c.close()
	}
}

func newCandidate(s seen) (*candidate, error) {
	pidfd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open pidfd: %w", err)
	}
	c := newBareCandidate(s.pid, pidfd)
	c.outer, c.direct, c.start, c.in.file = s.outer, s.direct, s.start, s.stdin
	c.runs(s.Argv, s.Path)
	return c, nil
}

func newBareCandidate(pid, pidfd int) *candidate {
	c := &candidate{set: -1, spinFD: -1, in: input{fd: -1}, moved: make(chan struct{}), free: make(chan struct{})}
	c.first.Store(&process{pid, pidfd})
	return c
}

func (c *candidate) retag(had locks) error {
	t := newTag()
	err := t.put(c.pid(), had)
	if err == nil && linux.Ended(c.pidfd()) {
		err = unix.ESRCH
	}
	if err == nil {
		c.tag = t
	}
	return err
}

// listenTo makes it a candidate.
func (w *watcher) listenTo(s seen) {
	c, err := newCandidate(s)
	if err != nil {
		return // it has ended
	}
	_ = c.retag(s.had) // without a tag it is taken with those below it
	w.hearken(c, s.stdin)
}

func (w *watcher) hearken(c *candidate, stdin file) {
	in, fd, err := openInput(c.pid(), c.pidfd(), stdin, w.Gateway, w.PID)
	if err != nil && c.argv() == nil && w.Listener >= 0 { // its name tells when it begins
		c.unheard = true
		w.candidates.enter(c)
		return
	}
	if err != nil {
		w.byName(c)
		return
	}
	c.in = in
	w.candidates.enter(c)
	err = w.ears.listenTo(c, fd)
	c.in.done(fd)
	if err != nil && c.decide(left) {
		w.leave(c, oneLine(err))
	}
	time.AfterFunc(attendAfter, func() { w.ears.attend(c) })
}

// byName is for what can't be listened to.
func (w *watcher) byName(c *candidate) {
	w.board.weaker("what is written to sockets may not be looked at here (ptrace_scope): such servers are found by configuration, --match or name alone")
	verdict, why := Left, "it is no child of the gateway's own, and its stdin may not be looked at; --config or --match would take it"
	if c.direct {
		verdict, why = byName(c.caller())
	}
	if verdict == Taken && c.decide(taken) {
		w.capture(c, why)
	} else if c.decide(left) {
		w.candidates.enter(c)
		w.leave(c, why)
	}
}

// leave is for a candidate that is none any more.
func (w *watcher) leave(c *candidate, why string) {
	w.ears.forget(c)
	w.candidates.leave(c)
	w.board.left(c.argv(), why)
	w.explain(c.pid(), "left", c.argv(), why)
	c.release()
	close(c.moved)
	c.close()
}

func (c *candidate) close() {
	_ = unix.Close(c.pidfd())
}

// capture puts a candidate that turned out to be a server into a group, with all that it has started.
func (w *watcher) capture(c *candidate, why string) {
	argv := c.argv()
	if argv == nil {
		argv = arguments(c.pid())
		c.runs(argv, "")
	}
	w.candidates.leave(c)
	s := w.server(w.Rules.name(argv))
	s.Notes = append(s.Notes, "a server: "+why)
	stderr := w.redirect(s, c)
	t, err := w.take(s, c)
	for err != nil && linux.Ended(c.pidfd()) && c.passOn() { // it has left its stdin to one that it started
		stderr.keep(RanBefore)
		t, err = w.take(s, c)
	}
	if err == nil {
		w.takeCarriers(t, c)
		stderr.open(s.Name, t.ID())
	}
	c.release()
	close(c.moved)
	if err != nil {
		ended := linux.Ended(c.pidfd())
		stderr.keep(neverBegan)
		w.endRedirection(stderr)
		stderr.close()
		c.close()
		if ended {
			w.explain(c.pid(), "ended", argv, "it has ended before it had a group, and so does what it has started")
			w.endCarriers(c)
			return
		}
		w.board.left(argv, "it can't be contained: "+oneLine(err))
		w.explain(c.pid(), "left", argv, "it can't be contained: "+err.Error())
		return
	}
	if stderr.awaited() {
		w.followed.Go(func() { w.supervise(t, s, c, stderr, why) }) // we may be what it waits for
		return
	}
	w.supervise(t, s, c, stderr, why)
}

// supervise gives a server that is in its group a supervisor.
func (w *watcher) supervise(t *launcher.Taken, s *launcher.Server, c *candidate, stderr *redirection, why string) {
	if stderr != nil {
		t.SetStderr(stderr.await())
		w.endRedirection(stderr)
	}
	w.ears.calm(100 * time.Millisecond)
	t = w.guide(t, s.Name, c.pid(), c.argv(), why)
	c.close()
	if t == nil {
		stderr.close()
		return
	}
	w.followed.Go(func() {
		w.follow(t)
		stderr.close()
	})
}

func (w *watcher) take(s *launcher.Server, c *candidate) (*launcher.Taken, error) {
	return s.Take(lifecycle.Child{PID: c.pid(), PIDFD: c.pidfd(), ClientPIDFD: w.Gateway})
}

// What forks and exits all the time is gone before it can be moved. So after the first pass whoever is found is
// stopped until it has been moved, and looked for until some passes in a row find nobody.
const (
	takePasses = 400
	takeQuiet  = 20              // where processes come and go; one is enough where none does
	takeWithin = 5 * time.Second // a busy machine gives whoever looks for them no more than its share
)

// takeCarriers puts all that carry the tag of a server, or of what its members have started, into its
// group, with who is below them.
func (w *watcher) takeCarriers(t *launcher.Taken, c *candidate) {
	done := map[int]bool{c.pid(): true}
	deadline := time.Now().Add(takeWithin)
	for pass, quiet := 0, 0; pass < takePasses && quiet < takeQuiet; pass++ {
		fresh, gone := w.takePass(t, c, done, pass > 0)
		switch {
		case fresh:
			quiet = 0
		case !gone:
			quiet = takeQuiet // nobody has come or gone
		default:
			quiet++
		}
		if time.Now().After(deadline) {
			return
		}
	}
}

// takePass looks at everybody once, the newest first: those hop. gone: one was there, and was not any more.
func (w *watcher) takePass(t *launcher.Taken, c *candidate, done map[int]bool, stop bool) (fresh, gone bool) {
	tags := w.candidates.within(c)
	pids, _ := everybody() // nobody, without /proc
	slices.Reverse(pids)
	for _, pid := range pids {
		had := locksOf(pid)
		if !had.known && had.soft == 0 {
			gone = true
		}
		if !tags[had.tag()] || !isOurs(pid) {
			continue
		}
		took := w.takeAlso(t, pid, stop, func() bool { return tags[locksOf(pid).tag()] && isOurs(pid) })
		done[pid] = done[pid] || took
		fresh, gone = fresh || took, gone || !took
	}
	for _, pid := range pids {
		if done[pid] && w.takeBelow(t, pid, done) {
			fresh = true
		}
	}
	return fresh, gone
}

// isOurs: anybody can read a tag, and put it on a process of theirs. What a server runs as another user is found
// below it.
func isOurs(pid int) bool {
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == unix.Getuid()
}

// takeBelow takes who has dropped the tag, and not its parent.
func (w *watcher) takeBelow(t *launcher.Taken, parent int, done map[int]bool) (fresh bool) {
	children, _ := proc.Children(parent) // nobody, if it has ended
	for _, pid := range children {
		if done[pid] {
			continue
		}
		done[pid] = true
		isChild := func() bool { // and in no other group
			st, err := proc.ReadStat(pid)
			return err == nil && st.PPID == parent && !locksOf(pid).inGroup()
		}
		if w.takeAlso(t, pid, false, isChild) {
			fresh = true
			w.takeBelow(t, pid, done)
		}
	}
	return fresh
}

// takeAlso takes a process that is what it should be, as long as a pidfd of it is open: a group is
// entered by pid, which may be another's by then.
func (w *watcher) takeAlso(t *launcher.Taken, pid int, stop bool, is func() bool) bool {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(pidfd)
	if !is() || linux.Ended(pidfd) {
		return false
	}
	if stop && !isStopped(pid) {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGSTOP, nil, 0) // gone is as good
		defer unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0)
	}
	err = t.TakeAlso(pid, pidfd)
	if err != nil && !errors.Is(err, unix.ESRCH) && !linux.Ended(pidfd) {
		why := fmt.Sprintf("it belongs to the server %s, and could not be moved to its group: %s", t.ID(), oneLine(err))
		w.board.left(arguments(pid), why)
		w.explain(pid, "left", arguments(pid), why)
	}
	return err == nil && !linux.Ended(pidfd)
}

// isStopped: what was stopped before stays so.
func isStopped(pid int) bool {
	st, err := proc.ReadStat(pid)
	return err == nil && st.Stopped()
}

func (w *watcher) guide(t *launcher.Taken, called string, pid int, argv []string, why string) *launcher.Taken {
	if err := t.Guide(); err != nil {
		w.explain(pid, "left", argv, "it can't be contained: "+err.Error())
		t.Release()
		return nil
	}
	w.board.taken(t.ID(), called, why)
	w.explain(pid, fmt.Sprintf("taken as %s (%s)", t.ID(), t.Backend()), argv, why)
	return t
}

// unknown is the name of a server whose command line may not be looked at.
const unknown = "server"

func (r Rules) name(argv []string) string {
	if len(argv) == 0 {
		return unknown
	}
	if known := r.Server(argv); known != nil && known.Name != "" {
		return known.Name
	}
	called := name.Derive(argv)
	like := slices.DeleteFunc(slices.Clone(r.Configured), func(c Configured) bool {
		return len(c.Argv) == 0 || path.Base(c.Argv[0]) == path.Base(argv[0]) || name.Derive(c.Argv) != called
	})
	if len(like) == 1 && like[0].Name != "" { // a client may start what is in a runner's cache
		return like[0].Name
	}
	return called
}

// server is what a server of this gateway is; "" for the watcher's own place.
func (w *watcher) server(name string) *launcher.Server {
	of := w.Servers
	if name != "" {
		of = w.configure(name, of)
	}
	limits := of.Limits
	limits.BestEffort = true // they were tried when the gateway started; without them it is contained at least
	return &launcher.Server{
		Name: name, Policy: of.Policy, Limits: limits, Backend: of.Backend, Require: true, Replace: of.Replace, Slice: of.Slice, Stderr: of.Stderr,
		Report: -1, Executable: fmt.Sprintf("/proc/self/fd/%d", w.Runner), Env: w.env, Client: w.PID, ClientName: w.Name,
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }
