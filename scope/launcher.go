//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/spawn"
)

// Server is one command to be run in a group of its own.
type Server struct {
	Name    string
	Path    string   // the file to execute, from Lookup
	Argv    []string // as the client gave it
	Env     []string // the client's, without our own variables
	Policy  Policy
	Backend Backend
	// Report is a descriptor for the report, or -1.
	Report int
	// Verbose asks for notes on who had to be killed.
	Verbose bool
	// Executable is mcpscope itself, for the supervisor.
	Executable string
	// Foreign are the descriptors above 2 that the client passed on. The server gets
	// them, and nobody else keeps them.
	Foreign []int
	NoFile  *unix.Rlimit
}

// Outcome is how a server ended.
type Outcome struct {
	// Status is what wait(2) said of the main process; Known is false where nobody
	// could wait for it any more.
	Status unix.WaitStatus
	Known  bool
	Cause  Cause
	Notes  []string
	Stuck  []string // members that could not be killed
}

// launcher is the process that the client started and waits for.
type launcher struct {
	server     *Server
	config     *config
	group      *group
	backend    Backend
	control    control
	client     *clientSide
	loop       *poller
	supervisor int // its pid, only for a manager that wants one; 0 before it is started
	pidfd      int // of the supervisor; -1 until it has started the server
	signals    chan os.Signal
	chld       chan os.Signal

	terminal  bool
	subreaper bool      // PID 1 does not reap: see initReaps
	waiting   []message // sent, and not yet answered
	answer    *time.Timer
	due       *time.Timer // when the supervisor must have acted
	asked     bool        // and it had asked the members already
	patience  int
	alone     *course // set once the supervisor is given up
	final     *message
}

// Run runs the server and returns when nothing of it is left. An error means that
// mcpscope itself failed: nothing was started, or everything was ended.
func (s *Server) Run() (Outcome, error) {
	go reserveThreads() // there is time until the server runs
	l, err := s.prepare()
	if err != nil {
		return Outcome{}, err
	}
	if err := l.start(); err != nil {
		l.abandon()
		return Outcome{}, err
	}
	return l.watch()
}

// prepare makes everything that can fail before anything is started.
func (s *Server) prepare() (*launcher, error) {
	l := &launcher{server: s, terminal: onTerminal(), pidfd: -1}
	var err error
	if l.client, err = watchClient(); err != nil {
		return nil, err
	}
	if l.loop, err = newPoller(); err != nil {
		return nil, err
	}
	if err = l.client.watch(l.loop); err != nil {
		return nil, err
	}
	l.config = s.config()
	return l, nil
}

func (s *Server) config() *config {
	c := &config{
		Version: protocolVersion, Name: s.Name, Path: []byte(s.Path),
		Policy: s.Policy, Started: time.Now().UnixNano(), NoFile: s.NoFile, Report: s.Report, Verbose: s.Verbose,
		Client: describeClient(),
	}
	for _, a := range s.Argv {
		c.Argv = append(c.Argv, []byte(a))
	}
	return c
}

// start starts the supervisor, which starts the server.
func (l *launcher) start() error {
	// before there is anyone to pass them on to, so that none is lost
	l.signals = newSignals()
	notify(l.signals, ending...)
	theirs, err := l.connect()
	if err != nil {
		return err
	}
	defer theirs.close()
	if err := l.settle(); err != nil {
		return err
	}
	// while the supervisor starts, so that none is lost once the server runs
	notify(l.signals, forwarded()...)
	return nil
}

// settle tries the places in turn, the best first. Where a group can be made before
// there is a supervisor, that is born in it.
func (l *launcher) settle() error {
	places, errs := placesFor(l.server.Backend)
	for _, p := range places {
		err := l.settleAt(p)
		if err == nil {
			return nil
		}
		if errors.Is(err, errSpawn) {
			return err // no other place would help
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.backend(), err))
	}
	return noPlace(errs)
}

// errSpawn marks that the supervisor could not be started.
var errSpawn = errors.New("start the supervisor")

func (l *launcher) settleAt(p place) error {
	var err error
	if l.supervisor == 0 && p.needsProcess() {
		if err = l.spawn(nil); err != nil {
			return err
		}
	}
	if l.group, err = p.group(l.config, l.supervisor); err != nil {
		return err
	}
	l.backend = p.backend()
	at := &placed{ID: l.group.id, Dir: l.group.dir, Backend: l.backend, Managed: l.group.managed, Enter: l.supervisor != 0}
	if l.supervisor == 0 {
		if err = l.spawn(l.group.supervisor); err != nil {
			return err
		}
	}
	if err := l.control.send(message{Type: sayPlace, Place: at}, l.group.payload.FD()); err != nil {
		return fmt.Errorf("%w: %w", errSpawn, err)
	}
	return nil
}

func (l *launcher) connect() (theirs control, err error) {
	if l.control, theirs, err = newControl(); err != nil {
		return theirs, err
	}
	c := l.config
	c.Control = theirs.fd
	c.Stdin, c.Input, c.Stdout = l.client.stdin.FD(), l.client.input.FD(), l.client.stdout.FD()
	if c.Launcher, err = unix.PidfdOpen(unix.Getpid(), 0); err != nil {
		return theirs, fmt.Errorf("open pidfd: %w", err)
	}
	c.ClientPidfd, c.StdinFile = l.client.pidfd, l.client.file
	if l.terminal {
		c.Pgid = unix.Getpgrp()
	}
	return theirs, nil
}

// spawn starts the supervisor, born in group if that is not nil.
func (l *launcher) spawn(group *cgroup.Group) error {
	if l.subreaper = !initReaps(); l.subreaper {
		// Detached all the same, it comes back to us as its nearest subreaper.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become a subreaper: %w", err)
		}
	}
	memory, err := writeConfig(l.config)
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	cmd := spawn.Cmd{
		Path: l.server.Executable,
		Argv: []string{"mcpscope", "supervise", fmt.Sprint(memory), l.server.Name},
		Env:  l.server.Env, Group: group, Detach: true,
		Keep: append(l.config.inherited(), memory), NoFile: l.server.NoFile,
	}
	if l.supervisor, err = cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errSpawn, err)
	}
	l.letGo()
	return nil
}

// letGo closes what is the server's own, as soon as the supervisor has it. Our stderr
// stays, for our own failures.
func (l *launcher) letGo() {
	_ = replaceByNull(0, 1) // without /dev/null they stay open, which a server hardly notices
	for _, fd := range l.server.Foreign {
		if fd != l.server.Report {
			_ = unix.Close(fd)
		}
	}
}

// started: the server runs.
func (l *launcher) started(fds []int) error {
	if len(fds) != 2 {
		return errors.New("start the supervisor: it passed no pidfds")
	}
	l.pidfd, l.client.main = fds[0], fds[1]
	if err := l.loop.add(l.pidfd, tokenPeer); err != nil {
		return err
	}
	return l.loop.add(l.client.main, tokenMain)
}

// failure turns a failed start into the error that it was in the supervisor.
func (m message) failure(path string) error {
	if spawn.Step(m.Step) == spawn.StepExec {
		return &CommandError{path, unix.Errno(m.Errno)}
	}
	if m.Errno != 0 {
		return fmt.Errorf("%s: %w", m.Text, unix.Errno(m.Errno))
	}
	return errors.New(m.Text)
}

// abandon undoes a start that failed.
func (l *launcher) abandon() {
	l.control.close() // the supervisor, if there is one, ends at this
	if l.group == nil {
		return
	}
	_, _ = freeze.Stop{Group: l.group.payload}.Run()
	l.removeGroup()
}

// awaitRemoval waits until the supervisor has gone, and with it who removes the group:
// both hold the other end of the control socket.
func (l *launcher) awaitRemoval() {
	gone := awaitEnd(l.control.fd, 0, supervisorGoneWithin) // POLLHUP needs no asking
	if l.subreaper {
		reapAll(func(int, unix.WaitStatus) {}) // nobody else does
	}
	if !gone {
		_, _ = freeze.Kill(l.group.supervisor, supervisorGoneWithin) // its payload is gone
	}
	_ = l.group.remove() // it is gone, as a rule; a sweeper removes what can't be removed now
}

// removeGroup removes a group whose supervisor is dead or was never there.
func (l *launcher) removeGroup() {
	_, _ = freeze.Kill(l.group.supervisor, supervisorGoneWithin)
	_ = l.group.remove() // a sweeper removes what can't be removed now
}
