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
	starters   starters
	cgroup     string // in which the gateway was when this watcher began
	page       *page.Page
	guard      *page.Guard
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
	gateway := &starter{}
	w := &watcher{Watching: by, config: &config{}, servers: map[int]*launcher.Taken{}}
	if _, err := fmt.Sscan(args[0]+" "+args[2]+" "+args[3], &gateway.PID, &memory, &sock); err != nil {
		return nil, err
	}
	gateway.given = nameOf(gateway.PID, args[1]) // before the gateway sets its title
	w.starters = starters{
		gateway: gateway, called: gateway.given, image: imageOf(gateway.PID),
		leaders: map[int]bool{}, others: map[int]*starter{},
	}
	if self, err := group.Identify(gateway.PID); err == nil { // or it has ended
		gateway.Identity = self
		gateway.stdin = fileAt(self.PID, 0)
		gateway.service = serviceOf(self.PID)
		w.starters.session, _ = unix.Getsid(self.PID) // as above
		w.cgroup, _ = proc.ReadCgroup(self.PID)       // as above
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
	gateway.pidfd = int(w.page.FD.Client)
	w.held = int(w.page.Gateway.Listener)
	w.explainTo = int(w.page.FD.Keep)
	if w.hub, err = loop.NewHub(); err != nil {
		return nil, err
	}
	w.followAgain()
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
	for _, pid := range []int{os.Getpid(), int(w.page.ByGuard.GuardPID)} {
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
	if !w.page.Gateway.MovedOut {
		s := w.server("", w.starters.gateway)
		s.Client = 0 // we are where the gateway is, or was
		if err := s.MoveOut(os.Getpid(), int(w.page.ByGuard.GuardPID)); err != nil {
			return err
		}
		w.page.Gateway.MovedOut = true
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
	copy(w.page.Gateway.Refusal[:], why.Error())
	w.page.Gateway.Refused = true
	l, left := notify.Open(w.held, w.requests())
	_ = l.Serve(left, func(r *notify.Request) {
		status, err := proc.ReadStatus(int(r.TID)) // the gateway may execute by any thread
		if err == nil && status.Tgid == w.starters.gateway.PID {
			l.Refuse(r)
		} else {
			l.Continue(r)
		}
	})
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
	silent := make(chan struct{})
	idle := make(chan struct{})
	alone := make(chan struct{})
	ends, err := loop.New()
	if err == nil {
		gateway := w.starters.gateway.pidfd
		err = errors.Join(ends.Add(gateway, loop.TokenClient), ends.Add(w.guard.PIDFD, loop.TokenGuard))
	}
	if err != nil {
		return err
	}
	go func() {
		err = w.listener.Serve(left, w.answer)
		close(silent)
	}()
	go func() {
		if ends.Next(time.Time{}) == loop.TokenClient {
			w.starters.gateway.endedAt.Store(sinceBoot())
			go func() { // what it has started may still be on the way to its execve
				w.followDaemons()
				select {
				case <-silent:
				case <-time.After(5 * time.Second):
				}
				w.awaitOthers()
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
	return (*[page.HeldMost]notify.Request)(unsafe.Pointer(&w.page.Gateway.Held))[:]
}

// answer continues calls at once that can't start a server.
func (w *watcher) answer(r *notify.Request) {
	find := fileOfCaller
	if w.Blind { // yama would log that it refuses each
		find = fileAt
	}
	if r.IsCall() {
		w.followCaller(r)
		return
	}
	w.starters.saw(int(r.TID))
	stdin := find(int(r.TID), 0) // threads have the same
	piped := stdin.piped() && fileAt(int(r.TID), 1).piped()
	if w.resting.Load() || !piped && len(w.Rules.Match) == 0 && !w.listening() {
		w.listener.Continue(r)
		return
	}
	w.followed.Go(func() { w.consider(r, stdin, piped) })
}
