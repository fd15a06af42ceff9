//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/spawn"
)

// supervisor is the process that parents the main process, owns the group and ends
// it.
type supervisor struct {
	config  *config
	control control
	group   owned
	backend Backend
	client  *clientSide
	loop    *poller
	course  *course
	signals chan os.Signal

	main        int             // pid; no one else can wait for it, so it can't be reused
	status      unix.WaitStatus // once exited
	exited      bool
	launcher    bool // it lives
	swept       func()
	killed      []Killed
	killedTotal int
	notes       []string
	notesTold   int       // of them, to the journal
	stderr      Stderr    // of the server, as it turned out
	short       *shortage // nil if its memory is not limited
}

// Supervise is the whole life of a supervisor. memory is the descriptor of its
// configuration, foreign are those above 2 that it was started with. It returns the
// exit status, which nobody reads.
func Supervise(memory int, foreign []int) int {
	nameProcess()
	c, err := readConfig(memory)
	if err != nil {
		return 125 // the launcher sees EOF on the control socket
	}
	s := &supervisor{config: c, control: newEnd(c.ControlIn, c.ControlOut), launcher: true, signals: newSignals()}
	// Caught, not ignored: that would be inherited by the payload.
	notify(s.signals, unix.SIGCHLD, unix.SIGTERM, stopSignal, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	for _, fd := range c.inherited() {
		unix.CloseOnExec(fd)
	}
	// its number may be another descriptor's by now
	foreign = slices.DeleteFunc(foreign, func(fd int) bool { return fd == memory })
	at, err := s.whereabouts()
	if err != nil {
		return 125 // the launcher has gone, or given up
	}
	if at.Place.Backend == Tree && c.Place == nil {
		return s.standGuard(at, foreign)
	}
	if err := s.start(at, foreign); err != nil {
		s.failed(err)
		return 125
	}
	s.run()
	s.finish()
	return 0
}

// failed tells the launcher why nothing was started.
func (s *supervisor) failed(err error) {
	m := message{Type: sayFailed, Text: err.Error()}
	m.Text = m.Text[:min(len(m.Text), 1024)] // it has to fit a message
	var limit *LimitError
	if errors.As(err, &limit) {
		m.Limit, m.Hint = true, limit.Step
	}
	var step *spawn.Error
	if errors.As(err, &step) && !errors.Is(err, errSpawn) { // that is about ourselves, not about the server
		m.Step = uint32(step.Step)
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		m.Errno = int(errno)
	}
	_ = s.control.send(m) // without a launcher there is nobody to tell
}

// whereabouts waits for the launcher to say where the group is, unless it has told our
// guard.
func (s *supervisor) whereabouts() (message, error) {
	if s.config.Place != nil {
		return message{Type: sayPlace, Place: s.config.Place}, nil
	}
	m, err := s.control.receive(0)
	if err == nil && (m.Type != sayPlace || m.Place == nil || m.Place.Backend != Tree && len(m.fds) != 1) {
		err = fmt.Errorf("expected to be told the place, got %q", m.Type)
	}
	return m, err
}

// found tells whether the client has started the main process, so that we did not.
func (s *supervisor) found() bool { return s.config.Main >= 0 }

// run lasts until the payload is gone, or can't be made to go.
func (s *supervisor) run() {
	go s.loop.run()
	s.reap()
	s.swept = s.group.sweep()
	if s.config.Replace {
		go s.replaceOlder()
	}
	limits := newLimits(s.config.Policy)
	told := false
	for s.course.phase != stopped {
		select {
		case t := <-s.loop.C:
			s.happened(t)
		case sig := <-s.signals:
			s.caught(sig.(unix.Signal))
		case <-limits.timer.C:
			limits.elapsed(s.course)
		case <-s.course.timer.C:
			s.course.elapsed()
		case end := <-s.course.ladder:
			s.course.climbed(end)
			s.tookDown(end.seen)
		}
		if !told && s.course.phase >= stopping {
			told = true
			s.group.ending(s.course.cause)
		}
	}
}

func (s *supervisor) happened(t token) {
	switch t {
	case tokenStdin:
		s.course.hungUp(stdinClosed)
	case tokenStdout:
		s.course.hungUp(stdoutClosed)
	case tokenClient:
		s.course.clientDied()
	case tokenMain:
		s.mainEnded()
	case tokenControl:
		s.hear()
	case tokenPeer:
		s.hear()
		s.launcherDied()
	case tokenGuard:
		s.unguarded()
	case tokenShortage:
		s.short.happened()
		s.loop.changesAgain(s.short.events, tokenShortage)
	}
}

// hear takes in what the launcher says.
func (s *supervisor) hear() {
	all, closed := s.control.pending()
	for _, m := range all {
		if m.Type == saySignal {
			s.forward(unix.Signal(m.Signal))
		}
	}
	if len(all) > 0 {
		s.look()
	}
	if closed && s.found() {
		return // a launcher that has put it here is not needed to end it
	}
	if closed {
		s.launcherDied()
		return
	}
	s.loop.again(s.control.in, tokenControl)
}

// mainEnded: a main process that is not our child has ended. Nobody tells us how.
func (s *supervisor) mainEnded() {
	if s.config.Held >= 0 {
		_ = unix.Close(s.config.Held) // the client gets its EPIPE
		s.config.Held = -1
	}
	s.course.end(mainExited)
}

func (s *supervisor) launcherDied() {
	s.launcher = false
	s.course.end(launcherGone)
}

// unguarded: our guard was killed, so we may be next. As with a supervisor, kill at once.
func (s *supervisor) unguarded() {
	s.course.because(supervisorGone)
	s.course.kill()
}

// look notices at once what the poller may not have told yet.
func (s *supervisor) look() {
	s.reap()
	if s.client.stdin.Fired() {
		s.course.hungUp(stdinClosed)
	}
	if s.client.stdout.Fired() {
		s.course.hungUp(stdoutClosed)
	}
	if s.client.dead() {
		s.course.clientDied()
	}
	if poll.Ended(s.group.guard()) {
		s.unguarded()
	}
}

// forward passes on a signal that the launcher got.
func (s *supervisor) forward(sig unix.Signal) {
	if endsServer(sig) {
		s.course.signalled(sig)
		return
	}
	if !s.exited {
		_ = unix.PidfdSendSignal(s.client.main, sig, nil, 0) // ESRCH: it has just ended
	}
}

func (s *supervisor) caught(sig unix.Signal) {
	if sig == unix.SIGCHLD {
		s.reap()
		return
	}
	s.stopNow()
}

// stopNow: somebody wants the server to end.
func (s *supervisor) stopNow() {
	if grace, ok := s.group.stopGrace(); ok {
		s.course.shorten(grace)
	}
	s.course.end(stopRequested)
}

// reap waits for the main process and for whatever came home. Where it matters who had how much
// memory it waits only for those whose names it has; who has ended since sends another SIGCHLD.
func (s *supervisor) reap() {
	if s.short == nil {
		waitAll(-1, unix.WUNTRACED, s.waited)
		return
	}
	names, err := zombies()
	if err != nil {
		waitAll(-1, unix.WUNTRACED, s.waited)
		return
	}
	if st, err := proc.ReadStat(s.main); err == nil && !s.exited {
		names[s.main] = st.Comm // it may have been stopped
	}
	for pid, name := range names {
		waitAll(pid, unix.WUNTRACED, func(pid int, ws unix.WaitStatus, used *unix.Rusage) {
			if ws.Signaled() && ws.Signal() == unix.SIGKILL && (pid != s.main || int64(used.Maxrss) > ownPeak()) {
				s.short.add(Consumer{pid, name, uint64(used.Maxrss) << 10})
			}
			s.waited(pid, ws, used)
		})
	}
}

// waited: a child has ended, or the main process was stopped.
func (s *supervisor) waited(pid int, ws unix.WaitStatus, _ *unix.Rusage) {
	switch {
	case pid != s.main || s.exited:
	case ws.Stopped():
		s.tellStop(ws.StopSignal())
	default:
		s.exited, s.status = true, ws
		s.course.end(s.exitCause(ws))
	}
}
