// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/notify"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A program that reads as soon as it runs can have read its first message before anybody has looked.
// So a candidate is held when it begins, until something was written to its stdin; but not for
// long, not where that has been in vain before, and not where the program takes its time anyway.

const (
	holdMost   = 4 * time.Millisecond // with what it takes to be continued: 5 ms
	moveWithin = time.Second          // for a server to be in its group before it runs
	holdsMost  = 48                   // most of the requests that can be looked at are left to others
)

// begins is for a program that has been executed, and has not run yet.
func (w *watcher) begins(r *notify.Request) {
	pid := int(r.TID)
	c := w.candidates.of(pid)
	w.redirections.begins(pid, c)
	switch {
	case c != nil && c.is(undecided) && c.argv() == nil:
		go w.judgeBegun(r, c, pid)
	case c != nil && !c.is(left):
		go w.hold(r, c, pid)
	case w.blind.Load() && (len(w.Rules.Match) > 0 || w.Rules.listening()):
		go w.matchBegun(r, pid)
	default:
		if d := w.redirections.goesOn(pid); d != nil {
			go w.goOnWith(r, d)
		} else {
			w.listener.Continue(r)
		}
	}
}

// judgeBegun is for a candidate whose command line nobody could look at before.
func (w *watcher) judgeBegun(r *notify.Request, c *candidate, pid int) {
	argv := arguments(pid)
	if len(argv) == 0 || c.pid() != pid {
		w.goOn(r)
		return
	}
	c.runs(argv, argv[0])
	verdict, why := w.Rules.Decide(Caller{Stdio: true, Argv: argv, Path: argv[0]})
	switch {
	case verdict == Taken && c.decide(taken):
		w.ears.forget(c)
		go w.capture(c, why)
	case verdict == Left && c.decide(left):
		w.leave(c, why)
	case verdict == Candidate && c.unheard:
		w.byName(c)
	}
	w.hold(r, c, pid)
}

// matchBegun is the same for what need not have pipes.
func (w *watcher) matchBegun(r *notify.Request, pid int) {
	argv, had := arguments(pid), locksOf(pid)
	if len(argv) > 0 && !had.inGroup() && !launcher.In(pid, w.PID) {
		stdin, piped := stdioOf(pid)
		c := Caller{Stdio: piped, Argv: argv, Path: argv[0]}
		if verdict, why := w.Rules.Decide(c); verdict == Taken {
			w.takeNow(seen{origin: origin{pid: pid}, Caller: c, stdin: stdin, had: had}, nil, why)
		}
	}
	w.goOn(r)
}

func (w *watcher) hold(r *notify.Request, c *candidate, pid int) {
	var p program
	var took time.Duration // 0 if it was not held
	vain := false
	defer func() { // what takes locks that others hold comes after it has gone on
		w.goOn(r)
		if vain {
			w.inVain(c, p)
		}
		if took > 0 && w.Explain >= 0 {
			w.explain(pid, fmt.Sprintf("held for %v", took.Round(10*time.Microsecond)), c.argv(), "it may be a server")
		}
	}()
	if stdin, _ := stdioOf(pid); !stdin.same(c.in.file) {
		return
	}
	p, why := w.programOf(pid, w.Stderr == protocol.StderrJournal && pid == c.pid())
	c.ran.Store(&p)
	if c.is(undecided) && why == "" {
		if w.holds.Add(1) <= holdsMost {
			began := time.Now()
			timer := time.NewTimer(holdMost)
			select {
			case <-c.free:
			case <-timer.C:
				vain = c.is(undecided)
			}
			timer.Stop()
			took = time.Since(began)
		}
		w.holds.Add(-1)
	}
	if c.is(taken) {
		select {
		case <-c.moved:
		case <-time.After(moveWithin):
		}
	}
}

// inVain: it was not spoken to while it was held.
func (w *watcher) inVain(c *candidate, p program) {
	w.programs.wasInVain(p)
	if !p.slow {
		w.ears.expect(c)
	}
}

// programOf identifies what runs in a process. why is a reason not to hold it. slow: what takes its time is held as well.
func (w *watcher) programOf(pid int, slow bool) (p program, why string) {
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	file, err := os.Readlink(exe)
	if err != nil {
		return p, "it may not be looked at"
	}
	base := path.Base(file)
	if p.slow = isInterpreter(base) || isShell(base); p.slow && !slow {
		return p, "it takes its time"
	}
	var st unix.Stat_t
	if err := unix.Stat(exe, &st); err != nil {
		return p, "it may not be looked at"
	}
	p.dev, p.ino = st.Dev, st.Ino
	if argv := arguments(pid); len(argv) > 1 {
		p.argument = argv[1]
	}
	if w.programs.inVain(p) {
		return p, "it was held in vain before"
	}
	return p, ""
}

// program is a file with its first argument, by which many have commands that differ.
type program struct {
	dev, ino uint64
	argument string
	slow     bool // it reads long after it begins
}

// programs is what is known of them: how often each was held in vain, or that it was a server once.
type programs struct {
	mu  sync.Mutex
	all map[program]int
}

const (
	programsMost = 4096
	vainMost     = 2 // for a client that was busy may be slow to speak once
	servesOnce   = -1
)

// inVain: what was a server once is always held.
func (s *programs) inVain(p program) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[p] >= vainMost
}

func (s *programs) wasInVain(p program) {
	s.update(func() {
		if s.all[p] != servesOnce {
			s.all[p]++
		}
	})
}

func (s *programs) serves(p program) { s.update(func() { s.all[p] = servesOnce }) }

func (s *programs) update(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= programsMost {
		s.all = map[program]int{}
	}
	do()
}

// served are the whole command lines that were spoken to in MCP, and the candidates of other lines that have
// ended before anything was seen of what they were told.
type served struct {
	mu     sync.Mutex
	all    map[string]bool
	unseen map[string][]*candidate
}

// unseenMost bounds those of one line.
const unseenMost = 64

// add returns the candidates of that line that have turned out to be servers by this.
func (s *served) add(argv []string) []*candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= programsMost {
		s.all = map[string]bool{}
	}
	line := strings.Join(argv, "\x00")
	s.all[line] = true
	before := s.unseen[line]
	delete(s.unseen, line)
	return before
}

func (s *served) has(argv []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[strings.Join(argv, "\x00")]
}

// endedUnseen remembers a candidate, as long as its tag is known.
func (s *served) endedUnseen(c *candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unseen == nil || len(s.unseen) >= programsMost {
		s.unseen = map[string][]*candidate{}
	}
	line := strings.Join(c.argv(), "\x00")
	if len(s.unseen[line]) < unseenMost {
		s.unseen[line] = append(s.unseen[line], c)
	}
}

// holder is what a watcher has to hold programs.
type holder struct {
	served   served
	blind    atomic.Bool // command lines can't be looked at before a program runs
	holds    atomic.Int32
	programs programs
	spun     spins

	redirections redirections
}

// spins counts how often programs were listened to without a pause.
type spins struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *candidate) key() string {
	called := c.caller()
	if len(called.Argv) > 1 {
		return called.Path + " " + called.Argv[1]
	}
	return called.Path
}

func (s *spins) reset(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// worth is false for what has been listened to often enough, and was no server.
func (w *watcher) worth(c *candidate) bool {
	s, key := &w.spun, c.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= programsMost {
		s.all = map[string]int{}
	}
	s.all[key]++
	return s.all[key] <= spinsMost
}
