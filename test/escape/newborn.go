// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

// Newborns starts servers of one name one after the other, and kills a process of each during its start.
type Newborns struct {
	Backend Backend
	Program string
}

const (
	newbornWithin = 20 * time.Millisecond // a start takes less
	newbornBatch  = 300                   // servers whose clients are kept for the message of a failure
)

// Tries is how many servers there are of each kind, by default a few.
func Tries() int { return Number("TESTS_KILLS", 4) }

// Number is that of an environment variable, or the usual one.
func Number(variable string, usual int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(usual)))
	if err != nil {
		panic(variable + ": " + err.Error())
	}
	return n
}

// Run kills launcher, helpers, group, guard or client at a random moment. No process or directory may be left,
// no launcher may hang, and the client must see the right status. A manager that has missed the exit of a
// scope's first process keeps the empty scope until a sweep.
func (b Newborns) Run(t *testing.T) {
	for who, kill := range map[string]func(*newborn) (status string){
		"launcher": (*newborn).killLauncher,
		"helpers":  (*newborn).killHelpers,
		"group":    (*newborn).killGroup,
		"guard":    (*newborn).killGuard,
		"client":   (*newborn).killClient,
	} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			b.Backend.hold(t)
			tries := Tries()
			for done := 0; done < tries; done += newbornBatch {
				t.Run(fmt.Sprint("from ", done), func(t *testing.T) { b.batch(t, who, min(newbornBatch, tries-done), kill) })
			}
		})
	}
}

func (b Newborns) batch(t *testing.T, who string, n int, kill func(*newborn) string) {
	site := b.Backend.Site(t)
	own := site.Group("client")
	name := fmt.Sprintf("newborn-%s.%d", who, cells.Add(1))
	groups := own // in a tree all processes are in the client's group
	if b.Backend.Groups != nil {
		groups = b.Backend.Groups(site, own)
	}
	for range n {
		after := rand.N(newbornWithin)
		s := &newborn{t: t, name: name, groups: groups}
		started := b.Backend.starting()
		s.Client = site.NewClient(own, []string{"--group"}, []string{
			b.Program, "run", "--backend", b.Backend.Name, "--name", name, "--eof-grace", "5s", "--term-grace", "100ms", "--", site.Programs.Zoo, "plain"})
		time.Sleep(after) // the kill comes at a random moment, not at an event
		want := kill(s)
		if got := s.Status(Patience); want != "" && got != want {
			t.Errorf("after %v: ended with %q, want %q; stderr: %s", after, got, want, Contents(s.Stderr))
		}
		if !s.Server.Ended(Patience) {
			t.Errorf("after %v: the launcher hangs: %s", after, Describe(s.Server.PID))
		}
		started()
		if b.Backend.Groups == nil {
			var left []int
			if !pace.Eventually(Patience, func() bool { left = s.others(); return len(left) == 0 }) {
				t.Errorf("after %v: left: %v", after, left)
			}
		}
		if b.Backend.Removal == 0 {
			WantNoServers(t, groups, name, Patience)
		}
		for _, group := range Servers(groups, name, "*") {
			if err := bed.WaitEmpty(group, Patience); err != nil {
				t.Errorf("after %v: %v: %s", after, err, Tree(group))
			}
		}
		s.End()
		if t.Failed() {
			return
		}
	}
	left := func() bool { return len(Servers(groups, name, "*")) > 0 }
	if b.Backend.Removal > 0 && left() {
		SweepUntil(func() bool { return !left() }, func() {
			if out, err := site.Command(b.Program, "sweep", "--quiet").CombinedOutput(); err != nil {
				t.Errorf("sweep: %v: %s", err, out)
			}
		})
		WantNoServers(t, groups, name, 0)
	}
}

// newborn is a server that is still starting.
type newborn struct {
	*Client
	t            *testing.T
	name, groups string
}

// guards are the processes in the guards' group; there may be none.
func (s *newborn) guards() []int {
	pids, _ := GroupPids(s.groups + "/guards")
	return pids
}

// others are the processes in a client's group but the client, none in a group of servers.
func (s *newborn) others() []int {
	pids, _ := GroupPids(s.groups)
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == s.Own.PID })
}

func (s *newborn) killLauncher() string {
	s.Server.Signal(unix.SIGKILL)
	return killedStatus
}

// killHelpers kills the launcher, and some moment later the helper that the guard starts for it.
func (s *newborn) killHelpers() string {
	s.killLauncher()
	time.Sleep(rand.N(newbornWithin))
	for _, pid := range append(s.guards(), s.others()...) {
		if p, err := OpenProcess(pid); err == nil {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if bytes.HasPrefix(line, []byte("helper-")) { // no guard, whose death too would make an orphan
				p.Signal(unix.SIGKILL)
			}
			p.Close()
		}
	}
	return killedStatus
}

func (s *newborn) killGroup() string {
	_ = unix.Kill(-s.Server.PID, unix.SIGKILL) // its client has not reaped it, so the pid is still its own
	return killedStatus
}

func (s *newborn) killClient() string {
	s.Own.Signal(unix.SIGKILL)
	return ""
}

// killGuard kills it if it is there. The launcher forks another one, and the server ends as usual.
func (s *newborn) killGuard() string {
	for _, group := range Servers(s.groups, s.name, "*") {
		id := strings.TrimSuffix(group[strings.LastIndexByte(group, '-')+1:], ".scope")
		if p, err := guardOf(group, id); err == nil {
			defer p.Close()
			p.Signal(unix.SIGKILL)
			break
		}
	}
	for _, pid := range s.others() {
		if p, err := OpenProcess(pid); err == nil {
			defer p.Close()
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if bytes.HasPrefix(comm, []byte("guard-")) {
				p.Signal(unix.SIGKILL)
				break
			}
		}
	}
	s.Tell("close")
	return "exit 0"
}

const killedStatus = "signal 9"
