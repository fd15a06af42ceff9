// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Names for each gateway and its watcher.
const (
	WatchCommand = "watch"           // the subcommand that is the watcher
	GuardName    = page.GatewayGuard // the comm of the guard
)

// ownProgram is our own file, whatever has become of its path.
const ownProgram = "/proc/self/exe"

// Gateway is a command that starts servers.
type Gateway struct {
	Name    string
	Command Command
	Options
	// Explain is a descriptor for a line about each child, or -1.
	Explain int
	// Session is wanted for the gateway and all its servers.
	Session Session
	Backend names.Backend
	Warn    Warnings
}

// Command is what is executed, with all that it inherits from the client.
type Command struct {
	Path    string
	Argv    []string
	Env     []string
	NoFile  unix.Rlimit
	Signals guard.ClientSignals
}

// Session is a group of groups.
type Session struct {
	Wanted bool
	// Limits bound the gateway and its servers together.
	Limits cgroup.Limits
}

// Warnings print what is not as it was to be, before the gateway runs.
type Warnings struct {
	// Uncontained prints why no server is contained.
	Uncontained func(why error)
	// Weaker prints why servers have no cgroups, where they were to have the best that the host offers.
	Weaker func(why error)
	// Inside prints that a server around the gateway has all that it starts.
	Inside func()
	// NoSession prints why there is no session, and so no limit of one.
	NoSession func(why error)
}

// Options say which children of a gateway are servers, and how they are run.
type Options struct {
	// Require starts nothing where servers could not be contained.
	Require bool
	Rules
	// Configs are the files that have servers; none means all that are found.
	Configs []string
	// Settings are arguments of the gateway's command line, for Watching.Configure.
	Settings []string
}

// config is for a watcher, in addition to the page and its command line.
type config struct {
	Version int
	Options
	// Session is the path of the cgroup that the gateway and its servers are in, or "".
	Session string
	// Blind: memory of the gateway's processes may not be read (yama), so programs are held when they begin.
	Blind bool
}

// ErrExec marks that it is the gateway's own command that can't be executed.
var ErrExec = errors.New("execute")

// SessionError is why the session can't have its limits.
type SessionError struct{ why error }

func (e *SessionError) Error() string { return e.why.Error() }

func (e *SessionError) Unwrap() error { return e.why }

// Exec turns the calling process into the gateway: so that keeps the pid, the parent, the process
// session and the unit of the caller. It returns only if it can't.
func (g *Gateway) Exec() error {
	if notify.CallWatcher() { // the gateway around it contains the servers
		if err := g.checkOuterSession(); err != nil {
			return err
		}
		return g.exec()
	}
	if IsInServer() {
		if err := g.checkOuterSession(); err != nil {
			return err
		}
		g.Warn.Inside()
		return g.exec()
	}
	found, err := g.canContain()
	session, errSession := g.enterSession(found.Backend, err)
	if errSession != nil {
		return errSession
	}
	if err == nil {
		hasTrees := found.Backend == names.Tree
		if hasTrees && g.Backend == names.Auto {
			g.Warn.Weaker(found.Missed)
		}
		err = g.watched(session, hasTrees)
	}
	switch {
	case errors.Is(err, ErrExec) && !errors.Is(err, unix.ENOSYS), g.Require:
		return err
	default:
		g.Warn.Uncontained(err)
	}
	failed := make(chan error)
	go func() { // on another thread: the filter may be on ours
		runtime.LockOSThread()
		failed <- g.exec()
	}()
	runtime.LockOSThread()
	return <-failed
}

// IsInServer reports whether this process is in a server of mcpscope run. That ends with all of it at once,
// so servers of a gateway below have no groups of their own: these would outlive it for their graces.
func IsInServer() bool { return freeze.TagOn(os.Getpid()).IsTag() }

// canContain is before the gateway runs, when its stderr is still ours.
func (g *Gateway) canContain() (launcher.Found, error) {
	s := &launcher.Server{Places: launcher.Places{Backend: g.Backend, Require: g.Require}}
	return s.CanTake()
}

// enterSession makes the session, if it must have limits, and moves this process to it. uncontained is why
// servers can't be contained, or nil.
func (g *Gateway) enterSession(where names.Backend, uncontained error) (session string, err error) {
	if !g.Session.Wanted {
		return "", nil
	}
	switch {
	case uncontained == nil:
		session, err = launcher.EnterSession(where, g.Name, g.Session.Limits)
	case g.Require:
		return "", uncontained
	default:
		err = errUncontained
	}
	return session, g.allowWithout(err)
}

// errUncontained is for a note beside the one with the reason.
var errUncontained = errors.New("its servers cannot be contained")

// checkOuterSession returns an error, or warns, if a gateway below another one lacks the session it wants.
func (g *Gateway) checkOuterSession() error {
	if !g.Session.Wanted || launcher.OwnSession() != "" {
		return nil
	}
	return g.allowWithout(launcher.ErrNested)
}

// allowWithout returns the error with --require. Without it the gateway runs, and its servers are contained
// at least.
func (g *Gateway) allowWithout(err error) error {
	switch {
	case err == nil:
		return nil
	case g.Require:
		return &SessionError{err}
	}
	g.Warn.NoSession(err)
	return nil
}

// NeedsNoNewPrivs reports whether setuid programs do not work below a gateway of this process.
func NeedsNoNewPrivs() bool { return !notify.Capable(unix.CAP_SYS_ADMIN) }

// watched forks the guard, installs the filter and executes. The guard answers that call, and starts the
// watcher afterwards. hasTrees: servers have no cgroups.
func (g *Gateway) watched(session string, hasTrees bool) error {
	c := &config{
		Version: protocol.ProtocolVersion, Options: g.Options, Session: session,
		Blind: !notify.MayReadMemory(),
	}
	shared, err := g.prepare(c)
	if err != nil {
		return err
	}
	shared.Gateway.HasTrees = hasTrees
	guarding := guarding{gateway: os.Getpid(), name: g.Name, env: g.Command.Env, require: c.Require}
	watch, err := guarding.fork(shared, c.Require)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	listener, errno := notify.Install(NeedsNoNewPrivs(), c.Blind)
	if errno != 0 {
		_ = unix.Close(watch.Sock) // the guard ends with it
		return notify.Explain(errno)
	}
	errno = watch.Go(listener)
	_ = unix.Close(listener) // the guard has it; if that was killed, the execve fails with ENOSYS
	if errno != 0 {
		_ = unix.Close(watch.Sock) // the guard ends with it
		return fmt.Errorf("begin to watch: the guard: %w", errno)
	}
	err = g.exec()
	if shared.Gateway.Refused {
		return errors.New(string(bytes.TrimRight(shared.Gateway.Refusal[:], "\x00")))
	}
	return err
}

// prepare makes the page.
func (g *Gateway) prepare(c *config) (*page.Page, error) {
	shared, errno := page.New()
	if errno != 0 {
		return nil, fmt.Errorf("make the page: %w", errno)
	}
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("make the page: %w", err)
	}
	program, err := unix.Open(ownProgram, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", ownProgram, err)
	}
	shared.FD.Client = int32(pidfd)
	shared.FD.Program = int32(program)
	shared.FD.Keep = int32(g.Explain)
	return shared, shared.SetConfig(protocol.Encode(c))
}

// fork starts the guard. It starts the first watcher at once, or when this process executes the gateway.
func (g *guarding) fork(on *page.Page, startsWatcher bool) (*page.Guard, error) {
	line := []string{"mcpscope", WatchCommand, strconv.Itoa(g.gateway), g.name}
	return guard.Fork(on, &guard.Options{
		Name: GuardName, Argv: line, Env: g.env, Hide: hiddenArguments(),
		Gate: guard.Gate{Wanted: true, Require: g.require, Start: startsWatcher},
	})
}

// hiddenArguments returns the addresses of all arguments of this process but the first two: where they begin
// and end. The guard overwrites its copy of them.
func hiddenArguments() (bounds [2]uintptr) {
	if len(os.Args) <= 2 {
		return bounds
	}
	first := os.Args[2]
	last := os.Args[len(os.Args)-1]
	bounds[0] = uintptr(unsafe.Pointer(unsafe.StringData(first)))
	bounds[1] = uintptr(unsafe.Pointer(unsafe.StringData(last))) + uintptr(len(last))
	return bounds
}

// exec executes the command. A script without "#!" is executed as execvp(3) does.
func (g *Gateway) exec() error {
	c := &g.Command
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &c.NoFile, nil); err != nil {
		return fmt.Errorf("restore RLIMIT_NOFILE: %w", err)
	}
	runtime.LockOSThread() // a mask of signals is a thread's
	c.Signals.Restore()
	err := notify.Exec(c.Path, c.Argv, c.Env)
	if errors.Is(err, unix.ENOEXEC) {
		err = notify.Exec("/bin/sh", append([]string{"/bin/sh", c.Path}, c.Argv[1:]...), c.Env)
	}
	return fmt.Errorf("%w %s: %w", ErrExec, c.Path, err)
}
