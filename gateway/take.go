//go:build linux

package gateway

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/name"
	"github.com/mcpscope/mcpscope/notify"
	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/scope"
)

// consider decides about one process, and puts it into a group before it goes on.
func (w *watcher) consider(r *notify.Request, o origin, piped bool) {
	pidfd, err := unix.PidfdOpen(o.pid, 0)
	if err != nil {
		w.listener.Continue(r)
		return
	}
	defer unix.Close(pidfd)
	t, before := w.take(r, o, piped, pidfd)
	w.listener.Continue(r)
	if t != nil && before != nil {
		t = w.confirm(t, o, pidfd, before)
	}
	if t != nil {
		w.followed.Go(func() { w.follow(t) })
	}
}

// take returns nil for what is no server, or can't be contained. before is what a process was
// that can't be judged before it runs.
func (w *watcher) take(r *notify.Request, o origin, piped bool, pidfd int) (t *scope.Taken, before []string) {
	if scope.In(o.pid, w.PID) {
		return nil, nil // it belongs to a server, or has been judged in another directory of its path
	}
	c, missing := look(o.pid, r)
	c.Direct, c.Leader, c.Stdio = o.direct, o.leader, piped
	if missing || !w.listener.Valid(r) {
		return nil, nil
	}
	verdict, why := w.Rules.Decide(c)
	if verdict == Left {
		if c.Direct || len(w.Rules.Match) > 0 { // what a tool runs may be a lot
			w.explain(o.pid, "left", c.Argv, why)
		}
		return nil, nil
	}
	t, err := w.server(w.Rules.name(c.Argv)).Take(scope.Child{PID: o.pid, PIDFD: pidfd, ClientPIDFD: w.Gateway})
	if err != nil {
		w.explain(o.pid, "left", c.Argv, "it can't be contained: "+err.Error())
		return nil, nil
	}
	if verdict == Unsure {
		return t, arguments(o.pid)
	}
	return w.guide(t, o.pid, c.Argv, why), nil
}

func (w *watcher) guide(t *scope.Taken, pid int, argv []string, why string) *scope.Taken {
	if err := t.Guide(); err != nil {
		w.explain(pid, "left", argv, "it can't be contained: "+err.Error())
		t.Release()
		return nil
	}
	w.explain(pid, fmt.Sprintf("taken as %s (%s)", t.ID(), t.Backend()), argv, strings.Join(append([]string{why}, t.Notes()...), "; "))
	return t
}

// confirm judges a program that runs.
func (w *watcher) confirm(t *scope.Taken, o origin, pidfd int, before []string) *scope.Taken {
	argv := awaitProgram(o.pid, pidfd, before)
	verdict, why := Left, "it did not execute anything"
	if len(argv) > 0 {
		verdict, why = w.Rules.Decide(Caller{Direct: true, Stdio: true, Leader: o.leader, Argv: argv, Path: argv[0]})
	}
	if verdict == Taken {
		t.Rename(w.Rules.name(argv))
		return w.guide(t, o.pid, argv, why)
	}
	w.explain(o.pid, "left", argv, why)
	t.Release()
	return nil
}

// Nothing tells a bystander that a program has been executed, so it is asked for a while.
const (
	programWithin = 5 * time.Second
	programEvery  = 20 * time.Millisecond
)

// awaitProgram returns the arguments of the program that a process executes, nil if it does not.
func awaitProgram(pid, pidfd int, before []string) []string {
	deadline := time.Now().Add(programWithin)
	for pause := 100 * time.Microsecond; time.Now().Before(deadline); pause = min(2*pause, programEvery) {
		if now := arguments(pid); len(now) > 0 && !slices.Equal(now, before) {
			return now
		}
		fds, err := poll.Until(time.Now().Add(pause), unix.PollFd{Fd: int32(pidfd), Events: unix.POLLIN})
		if err != nil || fds[0].Revents != 0 {
			return nil
		}
	}
	return nil
}

// unknown is the name of a server until it can be looked at.
const unknown = "server"

func (r Rules) name(argv []string) string {
	if len(argv) == 0 {
		return unknown
	}
	if known := r.configured(argv); known != nil && known.Name != "" {
		return known.Name
	}
	return name.Derive(argv)
}

// server is what a server of this gateway is.
func (w *watcher) server(name string) *scope.Server {
	limits := w.Limits
	limits.BestEffort = true // they were tried when the gateway started; without them it is contained at least
	return &scope.Server{
		Name: name, Policy: w.Policy, Limits: limits, Backend: w.Backend, Require: true, Replace: w.Replace, Slice: w.Slice,
		Report: -1, Executable: fmt.Sprintf("/proc/self/fd/%d", w.Runner), Env: w.env, Client: w.PID,
	}
}
