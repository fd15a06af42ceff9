//go:build linux

package scope

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/journal"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/spawn"
	"github.com/mcpscope/mcpscope/stdio"
)

// start arms the supervisor and only then starts the main process.
func (s *supervisor) start(at message, foreign []int) error {
	if err := readyTimers(); err != nil {
		return err
	}
	if err := s.arm(at); err != nil {
		return err
	}
	env, err := proc.Environ() // which is not ours to read any more when tracers are kept off
	if err != nil {
		return err
	}
	if s.backend != Tree { // there others read the facts among our descriptors
		if err := keepTracersOff(); err != nil {
			return err
		}
	}
	if err := s.startMain(env); err != nil {
		return err
	}
	return s.started(foreign)
}

// started: the server runs, or is about to.
func (s *supervisor) started(foreign []int) error {
	s.letGo(foreign)
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil && !s.found() {
		s.client.main, err = unix.PidfdOpen(s.main, 0) // unreaped, so it is the one
	}
	if err != nil {
		_, _ = freeze.Stop{Target: s.group.members()}.Run()
		return fmt.Errorf("open pidfd: %w", err)
	}
	// a launcher that is gone already shows as EOF
	pidfds := []int{self, s.client.main}
	if guard := s.group.guard(); guard >= 0 {
		pidfds = append(pidfds, guard)
	}
	_ = s.control.send(message{Type: sayStarted}, pidfds...)
	_ = unix.Close(self) // the launcher has it
	// Not before the start, which it would delay by 0.5 ms: a server that uses up all
	// processes meanwhile ends this one, and the launcher then ends the server.
	reserveThreads()
	s.tellStart()
	return nil
}

func (s *supervisor) arm(at message) error {
	c := s.config
	var err error
	// what moves itself out of the group comes home as our child when its parent dies
	if err = becomeSubreaper(); err != nil {
		return err
	}
	if s.group, err = s.adopt(at); err != nil {
		return err
	}
	s.backend, s.notes = at.Place.Backend, at.Place.Notes
	if err = s.limit(); err != nil {
		return err
	}
	s.group.note(s.notes)
	s.client = &clientSide{
		stdin: stdio.FromFD(c.Stdin), input: stdio.FromFD(c.Input), stdout: stdio.FromFD(c.Stdout),
		file: c.StdinFile, answers: c.StdoutFile, conveyed: c.Conveyed, where: c.Where, mark: markOf(s.group.ident()), pidfd: c.ClientPidfd, main: c.Main, sure: s.found(),
	}
	if s.loop, err = newPoller(); err != nil {
		return err
	}
	// at once: whoever has stopped us may do so again before another thread is running
	s.loop.hungUp = func(t token) {
		if t == tokenControl {
			stayAwake(c.Policy.TermGrace)
		}
	}
	if s.short != nil {
		if err = s.loop.addChanges(s.short.events, tokenShortage); err != nil {
			return err
		}
	}
	if err = s.client.watch(s.loop); err != nil {
		return err
	}
	if err = s.loop.add(c.ControlIn, tokenControl); err != nil {
		return err
	}
	if err = s.loop.add(c.Launcher, tokenPeer); err != nil {
		return err
	}
	if err = s.loop.add(s.group.guard(), tokenGuard); err != nil {
		return err
	}
	if err = s.loop.add(c.Main, tokenMain); err != nil {
		return err
	}
	if err = continuedBy(c.ControlIn); err != nil {
		return err
	}
	s.course, err = newCourse(c.Policy, s.group.members(), s.client)
	if err != nil {
		return err
	}
	if s.described() || journal.Exists() {
		s.course.inspect = s.inspect
	}
	return nil
}

func (s *supervisor) adopt(at message) (owned, error) {
	if at.Place.Backend == Tree {
		return adoptTree(at.Place, s.config)
	}
	g, err := adoptGroup(at.fds[0], at.Place)
	if err == nil && g.managed && !s.found() {
		g.countMemory(at.Place.Backend) // groups of other backends were empty until now, which is cheaper
	}
	return g, err
}

func (s *supervisor) startMain(env []string) error {
	if s.found() {
		s.stderr = StderrInherit
		s.main, _ = proc.PIDOf(s.config.Main) // it may have ended, which the pidfd tells
		s.mark()
		return nil
	}
	s.connectStderr()
	cmd := spawn.Cmd{
		Path: s.config.Path, Argv: s.config.Argv, Env: append(env, "MCPSCOPE_ID="+s.group.ident()), Group: s.group.birthplace(),
		Pgid: s.config.Pgid, NoFile: s.config.NoFile, Locks: markOf(s.group.ident()).Limit(), Mask: &s.config.Mask, Shell: true,
	}
	var err error
	s.main, err = cmd.Start()
	return err
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
