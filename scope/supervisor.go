//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/spawn"
	"github.com/mcpscope/mcpscope/stdio"
)

// supervisor is the process that parents the main process, owns the group and ends
// it.
type supervisor struct {
	config  *config
	control control
	group   *group
	backend Backend
	client  *clientSide
	loop    *poller
	course  *course
	signals chan os.Signal

	main        int             // pid; no one else can wait for it, so it can't be reused
	status      unix.WaitStatus // once exited
	exited      bool
	launcher    bool // it lives
	killed      []Killed
	killedTotal int
	notes       []string
}

// Supervise is the whole life of a supervisor. memory is the descriptor of its
// configuration, foreign are those above 2 that it was started with. It returns the
// exit status, which nobody reads.
func Supervise(memory int, foreign []int) int {
	c, err := readConfig(memory)
	if err != nil {
		return 125 // the launcher sees EOF on the control socket
	}
	s := &supervisor{config: c, control: newEnd(c.Control), launcher: true}
	for _, fd := range c.inherited() {
		unix.CloseOnExec(fd)
	}
	// its number may be another descriptor's by now
	foreign = slices.DeleteFunc(foreign, func(fd int) bool { return fd == memory })
	at, err := s.whereabouts()
	if err != nil {
		return 125 // the launcher has gone, or given up
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
	var step *spawn.Error
	if errors.As(err, &step) {
		m.Step, m.Errno = uint32(step.Step), int(step.Errno)
	}
	_ = s.control.send(m) // without a launcher there is nobody to tell
}

// whereabouts waits for the launcher to say where the group is.
func (s *supervisor) whereabouts() (message, error) {
	m, err := s.control.receive(0)
	if err == nil && (m.Type != sayPlace || m.Place == nil || len(m.fds) != 1) {
		err = fmt.Errorf("expected to be told the place, got %q", m.Type)
	}
	return m, err
}

// start arms the supervisor and only then starts the main process.
func (s *supervisor) start(at message, foreign []int) error {
	if err := s.arm(at); err != nil {
		return err
	}
	reserveThreads() // before anything of the server can use them up
	if err := s.startMain(); err != nil {
		return err
	}
	s.letGo(foreign)
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		s.client.main, err = unix.PidfdOpen(s.main, 0) // unreaped, so it is the one
	}
	if err != nil {
		_, _ = freeze.Stop{Group: s.group.payload}.Run()
		return fmt.Errorf("open pidfd: %w", err)
	}
	// a launcher that is gone already shows as EOF
	_ = s.control.send(message{Type: sayStarted}, self, s.client.main)
	_ = unix.Close(self) // the launcher has it
	return nil
}

func (s *supervisor) arm(at message) error {
	c := s.config
	var err error
	// what moves itself out of the group comes home as our child when its parent dies
	if err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// Caught, not ignored: that would be inherited by the payload. Only these are
	// sent to a supervisor in good faith, WINCH by systemd as KillSignal=.
	s.signals = newSignals()
	notify(s.signals, unix.SIGCHLD, unix.SIGTERM)
	if s.group, err = adoptGroup(at.fds[0], at.Place); err != nil {
		return err
	}
	s.backend = at.Place.Backend
	s.client = &clientSide{
		stdin: stdio.FromFD(c.Stdin), input: stdio.FromFD(c.Input), stdout: stdio.FromFD(c.Stdout),
		file: c.StdinFile, pidfd: c.ClientPidfd, main: -1,
	}
	if s.loop, err = newPoller(); err != nil {
		return err
	}
	// at once: whoever has stopped us may do so again before another thread is running
	s.loop.lost = func() { stayAwake(c.Policy.TermGrace) }
	if err = s.client.watch(s.loop); err != nil {
		return err
	}
	if err = s.loop.add(c.Control, tokenControl); err != nil {
		return err
	}
	if err = s.loop.add(c.Launcher, tokenPeer); err != nil {
		return err
	}
	if err = continuedBy(c.Control); err != nil {
		return err
	}
	s.course, err = newCourse(c.Policy, s.group.payload, s.client)
	if err != nil {
		return err
	}
	if c.Report >= 0 || c.Verbose {
		s.course.frozen = s.inspect
	}
	return nil
}

func (s *supervisor) startMain() error {
	env, err := environment()
	if err != nil {
		return err
	}
	cmd := spawn.Cmd{
		Path: string(s.config.Path), Env: append(env, "MCPSCOPE_ID="+s.group.id), Group: s.group.payload,
		Pgid: s.config.Pgid, NoFile: s.config.NoFile, Shell: true,
	}
	for _, a := range s.config.Argv {
		cmd.Argv = append(cmd.Argv, string(a))
	}
	s.main, err = cmd.Start()
	return err
}

// environment is ours to the byte, in the order and with the duplicates that the
// client gave it; os.Environ would drop those.
func environment() ([]string, error) {
	b, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return nil, fmt.Errorf("read our environment: %w", err)
	}
	if len(b) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}

// letGo closes everything that is the client's.
func (s *supervisor) letGo(foreign []int) {
	_ = replaceByNull(0, 1, 2)
	ours := map[int]bool{}
	for _, fd := range s.config.inherited() {
		ours[fd] = true
	}
	for _, fd := range foreign {
		if !ours[fd] {
			_ = unix.Close(fd) // it was a copy
		}
	}
}

// replaceByNull gives the descriptors back without freeing their numbers, which the
// next open would take.
func replaceByNull(fds ...int) error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	for _, fd := range fds {
		if err := unix.Dup3(null, fd, unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("replace descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// run lasts until the payload is gone, or can't be made to go.
func (s *supervisor) run() {
	go s.loop.run()
	go notify(s.signals, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGWINCH) // see arm; nobody waits for these
	s.reap()
	go sweepFor(s.group)
	for s.course.phase != stopped {
		select {
		case t := <-s.loop.C:
			s.happened(t)
		case sig := <-s.signals:
			s.caught(sig.(unix.Signal))
		case <-s.course.timer.C:
			s.course.elapsed()
		case end := <-s.course.ladder:
			s.course.climbed(end)
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
	case tokenControl:
		s.hear()
	case tokenPeer:
		s.hear()
		s.alone()
	}
}

// hear takes in what the launcher says. If it has given us up there is nothing left
// in what it said before.
func (s *supervisor) hear() {
	all, closed := s.control.pending()
	for _, m := range all {
		if m.Type == sayTakeover {
			s.course.yield()
			all = nil
			break
		}
	}
	for _, m := range all {
		if m.Type == saySignal {
			s.forward(unix.Signal(m.Signal))
		}
		s.look()
		_ = s.control.send(s.answer()) // a launcher that is gone shows as EOF
	}
	if closed {
		s.alone()
		return
	}
	s.loop.again(s.control.fd, tokenControl)
}

// alone: the launcher is gone.
func (s *supervisor) alone() {
	s.launcher = false
	s.course.end(launcherGone)
}

func (s *supervisor) answer() message {
	return message{Type: sayAnswer, Due: int64(s.course.due()), Asked: s.course.phase >= stopping}
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
	s.course.end(stopRequested)
}

// reap waits for the main process and for whatever came home.
func (s *supervisor) reap() {
	reapAll(func(pid int, ws unix.WaitStatus) {
		if pid == s.main && !s.exited {
			s.exited, s.status = true, ws
			s.course.end(mainExited)
		}
	})
}

// finish brings home who left the group, reports, and removes the group.
func (s *supervisor) finish() {
	for range 3 { // someone outside the group may still have put a process into it
		s.bringHome()
		if len(s.course.result.Stuck) > 0 || !populated(s.group.payload) {
			break
		}
		s.course.result, _ = freeze.Stop{Group: s.group.payload}.Run() // the loop looks itself
	}
	s.report()
	if len(s.course.result.Stuck) > 0 {
		_ = s.control.send(s.last()) // a launcher that is gone needs no telling
		s.outlast()
	}
	s.clearAway()
	_ = s.control.send(s.last()) // as above; said twice it changes nothing
}

// clearAway removes the group when we have left it. Until then payload is there, by
// which a supervisor around us knows what we are. What can't be removed now, a sweeper
// removes.
func (s *supervisor) clearAway() {
	g := s.group
	if g.managed {
		return // systemd does
	}
	_ = g.payload.RemoveChildren()
	leaf, err := g.parent.MkdirOpen(leavingName, 0o700)
	if err != nil {
		return
	}
	defer leaf.Close()
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return
	}
	r := spawn.Remover{Leaf: leaf, PidFD: self, Dirs: []spawn.Dir{
		{Parent: g.top, Name: payloadName}, {Parent: g.top, Name: supervisorName}, {Parent: g.parent, Name: g.dir},
	}}
	_ = r.Start() // if it can't, the launcher removes the group
}

// outlast stays until a member in uninterruptible sleep has ended after all.
func (s *supervisor) outlast() {
	events, err := s.group.payload.Events()
	if err != nil {
		return
	}
	defer events.Close()
	_, _, _ = events.Wait(time.Time{}, -1, isEmpty)
}

// last is the last word. What is in it is for people, and has to fit a message.
func (s *supervisor) last() message {
	m := message{Type: sayEnded, Cause: s.course.cause, Notes: s.notesForPeople()}
	if s.exited {
		status := int(s.status)
		m.Status = &status
	}
	for _, stuck := range s.course.result.Stuck[:min(len(s.course.result.Stuck), lastWordMost)] {
		m.Stuck = append(m.Stuck, describeStuck([]freeze.Stuck{stuck}))
	}
	return m
}

// describeStuck is for people.
func describeStuck(all []freeze.Stuck) string {
	var parts []string
	for _, m := range all {
		where := ""
		if m.Wchan != "" {
			where = " in " + m.Wchan
		}
		parts = append(parts, fmt.Sprintf("process %d (%s), sleeping uninterruptibly%s", m.PID, m.Name, where))
	}
	return strings.Join(parts, ", ")
}
