// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Server is a child of a gateway, in a group of its own.
type Server = launcher.Server

// Watching has the functions of the program that the watcher runs in.
type Watching struct {
	// Configure makes a server of that name from a gateway's settings.
	Configure func(settings []string, name string) *Server
	// FindTool finds the program that reads clients' configurations.
	FindTool func() (string, error)
}

// watcher judges the programs that the gateway executes.
type watcher struct {
	*config
	Watching
	Name       string // of the gateway
	PID        int
	Stdin      file // the gateway's own
	page       *page.Page
	guard      *page.Guard
	gateway    int // pidfd
	held       int // the listener's descriptor
	explainTo  int // descriptor, or -1
	env        []string
	listener   *notify.Listener
	candidates candidates
	hub        *loop.Hub
	mu         sync.Mutex // of those that follow
	servers    map[int]*launcher.Taken
	numbers    numbers
	unwatched  []page.Kept // servers that this watcher failed to go on with
	followed   sync.WaitGroup
	resting    atomic.Bool // nothing becomes a server any more
	saying     sync.Mutex  // of Said
	unseen     sync.Once   // see sayUnseen
	attended   atomic.Int64
	ends       ends
	service    *cgroup.Group     // in which the gateway was when this watcher began, or nil
	identity   protocol.Identity // of the gateway; zero if that has ended before this watcher began
	session    int               // of the gateway
	program    protocol.File     // of the gateway; zero if that had ended
	ended      atomic.Int64      // when the gateway did, in ns since the boot; 0 until then
	first      bool              // no other watcher was before
}

// Watch is the whole life of a watcher. The arguments are those of its command line.
func Watch(args []string, by Watching) int {
	w, err := attach(args, by)
	if err != nil {
		return 125 // the guard answers
	}
	if err := w.settle(); err != nil {
		if linux.Ended(w.guard.PIDFD) {
			_ = w.forkGuard() // what it gets is all that can be had
		} else {
			w.refuse(err)
		}
		return 125
	}
	if err := w.watch(); err != nil {
		return 125 // the guard starts the next one
	}
	return 0
}

func attach(args []string, by Watching) (*watcher, error) {
	var memory, sock int
	w := &watcher{Watching: by, config: &config{}, Name: args[1], servers: map[int]*launcher.Taken{}}
	if _, err := fmt.Sscan(args[0]+" "+args[2]+" "+args[3], &w.PID, &memory, &sock); err != nil {
		return nil, err
	}
	w.Name, w.Stdin = nameOf(w.PID, w.Name), fileAt(w.PID, 0) // before the gateway sets its title
	if self, err := group.Identify(w.PID); err == nil {       // or it has ended
		w.identity = self
		w.session, _ = unix.Getsid(w.PID) // as above
		w.program = programOf(w.PID)
		w.service = serviceOf(w.PID)
	}
	w.candidates = candidates{
		all: map[file]*candidate{}, spoken: map[string]bool{}, unproven: map[string]bool{},
	}
	var err error
	if w.page, err = page.Open(memory); err != nil {
		return nil, err
	}
	if w.env, err = proc.Environ(); err != nil { // not to be read any more when tracers are kept off
		return nil, err
	}
	w.lowerOOMScore()
	text, err := w.page.Config()
	if err == nil && len(text) > 0 {
		err = protocol.Decode(text, w.config)
	}
	if err != nil {
		return nil, err
	}
	w.first = w.page.Phase != page.Running
	w.gateway, w.held, w.explainTo = int(w.page.Client), int(w.page.Payload), int(w.page.Keep)
	if w.hub, err = loop.NewHub(); err != nil {
		return nil, err
	}
	w.mu.Lock() // a server may end at once, before there is a guard to drop it
	ended, err := w.retake()
	if err != nil {
		return nil, err
	}
	if w.guard, err = page.Attach(w.page, sock); err != nil { // it was killed
		return nil, errors.Join(err, w.replaceGuard())
	}
	for _, number := range ended {
		w.drop(number)
	}
	w.mu.Unlock()
	return w, nil
}

// lowerOOMScore: without guard and watcher no program could be executed below the gateway.
func (w *watcher) lowerOOMScore() {
	for _, pid := range []int{os.Getpid(), int(w.page.GuardPID)} {
		for score := -1000; score < 1000; score += 100 {
			text := []byte(strconv.Itoa(score))
			if os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), text, 0) == nil {
				break // without privileges there is a least one
			}
		}
	}
}

// settle moves guard and watcher out of the gateway's way, and reads what servers there are.
func (w *watcher) settle() error {
	if w.page.Phase != page.Running {
		s := w.server("")
		s.Client = 0 // we are where the gateway is, or was
		if err := s.MoveOut(os.Getpid(), int(w.page.GuardPID)); err != nil {
			return err
		}
		w.page.Phase = page.Running
	}
	return w.readConfigured()
}

// readConfigured asks a second program: the code that reads clients' files is large.
func (w *watcher) readConfigured() error {
	tool, err := w.FindTool()
	var text []byte
	if err == nil {
		text, err = proc.Output(tool, append([]string{tool, ConfiguredCommand}, w.Configs...), w.env)
	}
	if err == nil && json.Unmarshal(text, &w.Configured) != nil {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("cannot read configurations: %w", err)
	if len(w.Configs) > 0 {
		return err
	}
	w.say(err.Error())
	return nil
}

// refuse: servers can't be contained. The guard answers from then on, or the gateway does not start.
func (w *watcher) refuse(why error) {
	defer w.guard.Send(page.WordDone)
	if !w.Require {
		w.say("its servers are not contained: " + why.Error())
		return
	}
	copy(w.page.Refusal[:], why.Error())
	w.page.Phase = refused
	l, left := notify.Open(w.held, w.requests())
	_ = l.Serve(left, func(r *notify.Request) {
		status, err := proc.ReadStatus(int(r.TID)) // the gateway may execute by any thread
		if err == nil && status.Tgid == w.PID {
			l.Refuse(r)
		} else {
			l.Continue(r)
		}
	})
}

// daemonizes is more than the lifetime of a process that only starts a daemon.
const daemonizes = 5 * time.Second

// leftDaemon reports whether a process like a daemon of the gateway is there: it runs the same program in
// another session, was started later, and has a filter like the gateway's.
func (w *watcher) leftDaemon() (found bool) {
	since := w.identity.Start
	if w.identity.PID == 0 { // it had ended before there was a watcher, so only its guard shows the time
		guard, _ := proc.ReadStat(int(w.page.GuardPID)) // it has not ended: see watch
		since = guard.StartTime
	}
	isSame := func(pid int) bool { return programOf(pid) == w.program }
	if w.program == (protocol.File{}) { // it had ended before that could be read, so any program may be it
		isSame = func(int) bool { return true }
	}
	_ = proc.Each(func(pid int) bool { // none, without /proc
		status, err := proc.ReadStatus(pid)
		if err != nil || !status.Filtered {
			return true
		}
		st, errStat := proc.ReadStat(pid)
		session, errSession := unix.Getsid(pid)
		alive := errStat == nil && errSession == nil
		found = alive && session != w.session && st.StartTime >= since && isSame(pid)
		return !found
	})
	return found
}

// serviceOf opens the control group of the service that a process is in; it is nil in a scope, and in no
// unit.
func serviceOf(pid int) *cgroup.Group {
	path, _ := proc.ReadCgroup(pid) // none, if it has ended
	unit, _, ok := systemd.UnitOf(path, os.Getuid())
	if !ok || !strings.HasSuffix(unit, ".service") {
		return nil
	}
	dir, _ := openGroupOf(pid) // as above
	return dir
}

// programOf returns the file that a process executes.
func programOf(pid int) protocol.File {
	f, _ := client.Identify(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/exe", pid)) // zero, if it can't be seen
	return f
}

// age is the time since the gateway was started, 0 if it has ended before there was a watcher.
func (w *watcher) age() time.Duration {
	if w.identity.PID == 0 && w.first {
		return 0
	}
	const tick = time.Second / 100 // USER_HZ
	return time.Duration(sinceBoot()) - time.Duration(w.identity.Start)*tick
}

// sinceBoot is the time in nanoseconds since the boot, as that of processes.
func sinceBoot() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // it can't fail
	return now.Nano()
}

// watch answers until no process is left that has the filter, or only ones that no server needs.
func (w *watcher) watch() error {
	var left []*notify.Request
	w.listener, left = notify.Open(w.held, w.requests())
	w.guard.Send(page.WordReady)
	silent, idle, alone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ends, err := loop.New()
	if err == nil {
		err = errors.Join(ends.Add(w.gateway, loop.TokenClient), ends.Add(w.guard.PIDFD, loop.TokenGuard))
	}
	if err != nil {
		return err
	}
	var lived time.Duration // the gateway, before idle is closed
	go func() {
		err = w.listener.Serve(left, w.answer)
		close(silent)
	}()
	go func() {
		if ends.Next(time.Time{}) == loop.TokenClient {
			w.ended.Store(sinceBoot())
			lived = w.age()
			go func() { // what it has started may still be on the way to its execve
				select {
				case <-silent:
				case <-time.After(5 * time.Second):
				}
				w.resting.Store(true)
				w.followed.Wait()
				close(idle)
			}()
			ends.Next(time.Time{})
		}
		close(alone)
	}()
	select {
	case <-silent:
		if err != nil {
			return err
		}
		<-idle // a server may have ended with it whose group is still to be removed
	case <-idle: // a tool that is left has the filter, too: the guard lets that execute what it wants
		if lived > daemonizes || !w.leftDaemon() {
			break
		}
		w.say("it has ended at once, and what it left executes programs: these are not contained. " +
			"A gateway has to stay in the foreground (not --daemon, not Type=forking)")
		select { // until then ls and doctor have it
		case <-silent:
		case <-alone:
			return w.forkGuard()
		}
	case <-alone:
		return w.forkGuard()
	}
	w.forgetSaid()
	w.guard.Send(page.WordDone)
	return nil
}

// live stops a server when it has to end.
func (w *watcher) live(t *launcher.Taken) {
	t.Live()
	w.forget(t)
	go t.Close() // it may wait for a manager that hangs
}

func (w *watcher) release(t *launcher.Taken) {
	w.forget(t)
	t.Release()
}

// requests are those of this watcher and of the ones before.
func (w *watcher) requests() []notify.Request {
	return (*[page.HeldMost]notify.Request)(unsafe.Pointer(&w.page.Held))[:]
}

// answer continues calls at once that can't start a server.
func (w *watcher) answer(r *notify.Request) {
	find := fileOfCaller
	if w.Blind { // yama would log that it refuses each
		find = fileAt
	}
	stdin := find(int(r.TID), 0) // threads have the same
	piped := stdin.piped() && fileAt(int(r.TID), 1).piped()
	if w.resting.Load() || !piped && len(w.Rules.Match) == 0 && !w.listening() {
		w.listener.Continue(r)
		return
	}
	w.followed.Go(func() { w.consider(r, stdin, piped) })
}
