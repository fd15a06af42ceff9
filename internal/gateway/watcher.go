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
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Server is a child of a gateway, in a group of its own.
type Server = launcher.Server

// Watching has the functions of the program that the watcher runs in.
type Watching struct {
	// Configure makes a server of that name, of a client's program, from a gateway's settings.
	Configure func(settings []string, name, client string) *Server
	// FindTool finds the program that reads clients' configurations.
	FindTool func() (string, error)
}

// watcher judges the programs that the gateway executes: it reads facts, judges by them, and acts.
type watcher struct {
	functions  Watching
	config     *config
	page       *page.Page
	listenerFD int
	listener   *notify.Listener
	starters   *starters
	servers    *servers
	groups     *groups
	examiner   *examiner
	reporter   *reporter
	reader     *reader
	actor      *actor
	following  *sync.WaitGroup
}

// statusAgain is the exit status of a watcher that failed: the guard answers, or starts the next one.
const statusAgain = 125

// Watch is the whole life of a watcher. The arguments are those of its command line.
func Watch(args []string, by Watching) int {
	line, err := parseArguments(args)
	if err != nil {
		return statusAgain
	}
	w, err := newWatcher(line, by)
	if err != nil {
		return statusAgain
	}
	if err := w.takeOver(line.guardSocket); err != nil {
		return statusAgain
	}
	if err := w.settle(); err != nil {
		if linux.Ended(w.servers.guard.PIDFD) {
			w.replaceGuard()
		} else {
			w.refuse(err)
		}
		return statusAgain
	}
	if err := w.watch(); err != nil {
		return statusAgain
	}
	return 0
}

// watcherLine is the command line of a watcher, behind the subcommand.
type watcherLine struct {
	gateway     int // its pid
	name        string
	page        int // descriptor
	guardSocket int
}

func parseArguments(args []string) (line watcherLine, err error) {
	line.name = args[1]
	if line.gateway, err = strconv.Atoi(args[0]); err != nil {
		return line, err
	}
	if line.page, err = strconv.Atoi(args[2]); err != nil {
		return line, err
	}
	line.guardSocket, err = strconv.Atoi(args[3])
	return line, err
}

// newWatcher reads what the gateway and the watcher before have left.
func newWatcher(line watcherLine, by Watching) (*watcher, error) {
	gateway := newGateway(line.gateway, line.name) // before the gateway sets its title
	leaders := newSessionLeaders(gateway)
	candidates := newCandidates()
	members := &memberships{gateway: line.gateway, candidates: candidates}
	members.cgroup, _ = proc.ReadCgroup(line.gateway) // "", if it has ended
	shared, err := page.Open(line.page)
	if err != nil {
		return nil, err
	}
	env, err := proc.Environ() // before takeOver: without tracers it can't be read any more
	if err != nil {
		return nil, err
	}
	// Without these two no program could be executed below the gateway.
	group.LowerOOMScore(os.Getpid())
	group.LowerOOMScore(int(shared.ByGuard.GuardPID))
	c, err := readConfig(shared)
	if err != nil {
		return nil, err
	}
	gateway.pidfd = int(shared.FD.Client)
	hub, err := loop.NewHub()
	if err != nil {
		return nil, err
	}
	w := &watcher{
		functions: by, config: c, page: shared,
		listenerFD: int(shared.Gateway.Listener), following: &sync.WaitGroup{},
	}
	w.reporter = &reporter{gateway: gateway, explanations: explanations{fd: int(shared.FD.Keep)}}
	w.starters = &starters{
		gateway: gateway, leaders: leaders, memberships: members, reporter: w.reporter, hub: hub,
		below: map[int]*starter{},
	}
	w.servers = &servers{
		page: shared, listenerFD: w.listenerFD, starters: w.starters, reporter: w.reporter, hub: hub,
		guarding: guarding{gateway: gateway.PID, name: gateway.given, env: env, require: c.Require},
		byNumber: map[int]*launcher.TakenServer{},
	}
	w.groups = &groups{
		config: c, configure: by.Configure, env: env, starters: w.starters, servers: w.servers,
		candidates: candidates, memberships: members, reporter: w.reporter, following: w.following,
	}
	w.examiner = &examiner{
		candidates: candidates, groups: w.groups, servers: w.servers, reporter: w.reporter,
		following: w.following,
	}
	w.reader = &reader{starters: w.starters, memberships: members, candidates: candidates}
	w.actor = &actor{
		memberships: members, groups: w.groups, examiner: w.examiner, reporter: w.reporter,
	}
	return w, nil
}

func readConfig(shared *page.Page) (*config, error) {
	text, err := shared.Config()
	if err != nil {
		return nil, err
	}
	c := &config{}
	return c, protocol.Decode(text, c)
}

// takeOver continues with the servers of the watcher before. If the guard was killed, this watcher forks
// another one, which starts the next watcher. After an error the servers stay locked: this watcher exits.
func (w *watcher) takeOver(guardSocket int) error {
	w.starters.restore()
	w.servers.mu.Lock() // a server may end at once, before there is a guard to drop it
	found, err := w.servers.retake()
	if err != nil {
		return err
	}
	for _, t := range found.running {
		if t.IsProven() {
			w.following.Go(func() { w.servers.followUntilEnd(t) })
		} else {
			w.examiner.resume(t)
		}
	}
	w.servers.guard, err = page.Attach(w.page, guardSocket)
	if errors.Is(err, unix.ESRCH) { // it was killed
		w.servers.replaceGuard()
	}
	if err != nil {
		return err
	}
	for _, number := range found.ended {
		w.servers.drop(number)
	}
	w.servers.mu.Unlock()
	return nil
}

// replaceGuard locks the servers, and replaces a guard that was killed. They stay locked: this watcher exits.
func (w *watcher) replaceGuard() {
	w.servers.mu.Lock()
	w.servers.replaceGuard()
}

// settle moves guard and watcher out of the gateway's way, and reads what servers there are.
func (w *watcher) settle() error {
	if w.page.Gateway.HasTrees { // before it moves out, where it would pass for one that contains nothing
		showTrees()
	}
	isFirst := !w.page.Gateway.MovedOut
	if isFirst {
		s := w.groups.newServer("", w.starters.gateway)
		// We are where the gateway is, or was.
		if err := s.MoveOut(os.Getpid(), int(w.page.ByGuard.GuardPID)); err != nil {
			return err
		}
		w.page.Gateway.MovedOut = true
	}
	configured, err := w.readConfigured()
	if err == nil {
		w.config.Configured = configured
		return nil
	}
	err = fmt.Errorf("cannot read configurations: %w", err)
	if w.config.Require && len(w.config.Configs) > 0 && isFirst {
		return err
	}
	w.reporter.reportNote(err.Error())
	return nil
}

// readWithin is a part of the time for which programs wait for the first watcher. A configuration may be on a
// file system that hangs.
const readWithin = 5 * time.Second

// readConfigured executes the tool, since the code that reads clients' files is large. The tool prints the
// servers, or the text of its error: proc.Output returns stdout and stderr in one.
func (w *watcher) readConfigured() (servers []Configured, err error) {
	tool, err := w.functions.FindTool()
	if err != nil {
		return nil, err
	}
	argv := append([]string{tool, ConfiguredCommand}, w.config.Configs...)
	text, err := proc.Output(tool, argv, w.groups.env, readWithin)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(text, &servers) != nil {
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	return servers, nil
}

// refuse gives up a gateway whose servers can't be contained. The guard answers from then on, or the
// gateway does not start.
func (w *watcher) refuse(why error) {
	defer w.servers.guard.Send(page.WordDone)
	if !w.config.Require {
		w.reporter.reportNoneContained(why)
		return
	}
	copy(w.page.Gateway.Refusal[:], why.Error())
	w.page.Gateway.Refused = true
	listener, left := notify.Open(w.listenerFD, w.requests())
	// An error ends this watcher, as the end of the last process with the filter does.
	_ = listener.Serve(left, func(r *notify.Request) {
		status, err := proc.ReadStatus(int(r.TID)) // the gateway may execute by any thread
		if err == nil && status.Tgid == w.starters.gateway.PID {
			listener.Refuse(r)
		} else {
			listener.Continue(r)
		}
	})
}

// requests returns the memory on the page for held calls. The watcher before may have left some in it.
func (w *watcher) requests() []notify.Request {
	return (*[page.HeldMost]notify.Request)(unsafe.Pointer(&w.page.Gateway.Held))[:]
}

// lingerMost is how long the watcher waits, after the gateway's end, for programs on the way to their execve.
const lingerMost = 5 * time.Second

// watch answers until no process is left that has the filter, or only ones that no server needs.
func (w *watcher) watch() error {
	var left []*notify.Request
	w.listener, left = notify.Open(w.listenerFD, w.requests())
	w.servers.guard.Send(page.WordReady)
	ends, err := loop.New()
	if err != nil {
		return err
	}
	if err := ends.Add(w.starters.gateway.pidfd, loop.TokenClient); err != nil {
		return err
	}
	if err := ends.Add(w.servers.guard.PIDFD, loop.TokenGuard); err != nil {
		return err
	}
	if err := ends.Catch(names.StopSignal); err != nil {
		return err
	}
	w.followSession()
	serving := w.serve(left)
	noServers, guardDied := w.followEnds(ends, serving)
	select {
	case <-serving.done:
		if serving.err != nil {
			return serving.err
		}
		select {
		case <-noServers: // a server may have ended with it whose group is still to be removed
		case <-guardDied:
			w.replaceGuard()
			return nil
		}
	case <-noServers: // a tool that is left has the filter, too: the guard lets that execute what it wants
	case <-guardDied:
		w.replaceGuard()
		return nil
	}
	w.reporter.removeNotices()
	w.leaveSession()
	w.servers.guard.Send(page.WordDone)
	return nil
}

// followEnds closes noServers when the gateway has ended, and its servers after it, and guardDied at the
// death of the guard.
func (w *watcher) followEnds(ends *loop.Loop, serving *serving) (noServers, guardDied chan struct{}) {
	noServers = make(chan struct{})
	guardDied = make(chan struct{})
	awaitServers := func() {
		w.awaitServers(serving)
		close(noServers)
	}
	go func() {
		defer close(guardDied)
		for {
			switch ends.Next(time.Time{}) {
			case loop.TokenClient:
				w.starters.gateway.recordEnd()
				w.thawSession()
				go awaitServers()
			case loop.TokenSignals:
				ends.Signals()
				w.servers.passOnRequests()
			case loop.TokenGuard:
				return
			}
		}
	}()
	return noServers, guardDied
}

// serving is the listener's loop. It is done when no process is left that has the filter, or after an error.
type serving struct {
	done chan struct{}
	err  error // valid when done is closed
}

func (w *watcher) serve(left []*notify.Request) *serving {
	s := &serving{done: make(chan struct{})}
	go func() {
		s.err = w.listener.Serve(left, w.answer)
		close(s.done)
	}()
	return s
}

// awaitServers returns when the gateway has ended, and all daemons and servers with it.
func (w *watcher) awaitServers(s *serving) {
	w.starters.followDaemons()
	select { // what the gateway has started may still be on the way to its execve
	case <-s.done:
	case <-time.After(lingerMost):
	}
	w.starters.awaitBelow()
	w.following.Wait()
}

// answer continues calls at once that can't start a server.
func (w *watcher) answer(r *notify.Request) {
	if r.CallsWatcher() {
		w.followCaller(r)
		return
	}
	tid := int(r.TID) // threads have the same descriptors
	w.starters.leaders.record(tid)
	stdin := w.readStdin(tid)
	if stdin.isHidden(tid) {
		w.reporter.reportUnseen("they may not be examined, which for another user's takes CAP_SYS_PTRACE")
	}
	stdio := stdin.mayHavePeer() && fileAt(tid, 1).mayHavePeer()
	mayBeServer := stdio || len(w.config.Match) > 0 || w.config.haveListening()
	if w.starters.resting() || !mayBeServer || !w.config.Blind && r.IsKnownMissing() {
		w.listener.Continue(r)
		return
	}
	call := &heldCall{listener: w.listener, request: r, isBlind: w.config.Blind}
	w.following.Go(func() { w.consider(call, stdin, stdio) })
}

func (w *watcher) readStdin(tid int) file {
	if w.config.Blind { // yama would log that it refuses each
		return fileAt(tid, 0)
	}
	return fileOfCaller(tid, 0)
}

// followCaller answers the call of a process that is about to become a gateway below the watched one. That
// can be the gateway itself: `mcpscope gateway -- mcpscope gateway -- claude`. A call that goes on unanswered
// tells the process that nobody contains its servers.
func (w *watcher) followCaller(r *notify.Request) {
	status, err := proc.ReadStatus(int(r.TID)) // a thread may call
	if err != nil || !w.listener.Valid(r) {
		w.listener.Continue(r) // it has ended
		return
	}
	if status.Tgid != w.starters.gateway.PID && w.starters.add(status.Tgid, false) == nil {
		w.listener.Continue(r)
		return
	}
	w.listener.AnswerCall(r)
}

// consider decides about one process before it goes on.
func (w *watcher) consider(call *heldCall, stdin file, stdio bool) {
	defer w.listener.Continue(call.request)
	e := w.reader.readCommand(call, stdin, stdio)
	defer e.close()
	byCommand := w.config.judgeCommand(&e.facts)
	if byCommand.verdict != NotServer {
		w.reader.readSurroundings(e, byCommand.verdict)
	}
	w.actor.act(e, judge(&e.facts, byCommand))
}
