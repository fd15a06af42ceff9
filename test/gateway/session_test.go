// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A sessionWorld is a world with a gateway in a session of its own.
type sessionWorld struct {
	*world
	g   *Gateway
	dir string // of the session
}

func newSessionWorld(t *testing.T, flags ...string) *sessionWorld {
	t.Helper()
	return sessionIn(newWorld(t), flags...)
}

func sessionIn(w *world, flags ...string) *sessionWorld {
	t := w.T
	t.Helper()
	flags = append([]string{"--session", "--match", "zoo", "--term-grace", "200ms"}, flags...)
	s := &sessionWorld{world: w, g: w.gateway(flags...)}
	agent := mustPath(t, s.g.PID)
	s.dir = filepath.Join(bed.Root(t), filepath.Dir(agent))
	inSession := strings.HasPrefix(filepath.Base(s.dir), "mcp-session_like_") && filepath.Base(agent) == "agent"
	if !inSession {
		t.Fatalf("the agent is in %s", agent)
	}
	s.g.Groups = s.dir
	return s
}

// removed fails the test unless the session is removed; a sweep is needed where its watcher was killed.
func (s *sessionWorld) removed() {
	s.T.Helper()
	if err := escape.AwaitRemoval(s.dir, escape.Patience); err != nil {
		s.T.Errorf("%v: %s", err, escape.Tree(s.dir))
	}
}

// TestEscapeInSession is TestEscape for servers and their agent in one group of groups.
func TestEscapeInSession(t *testing.T) {
	t.Parallel()
	ends := append(Ends(),
		End{Name: "guard", Do: func(c *Cell) {
			c.Guard().Signal(unix.SIGKILL)
			c.G.Tell("close one")
		}},
		End{Name: "all-three", Gateway: true, Do: func(c *Cell) { // a sweep finds what is in the session
			if err := escape.KillTogether(c.Guard(), c.G.Watcher()); err != nil {
				c.T.Error(err)
			}
			c.G.Own.Signal(unix.SIGKILL)
			c.Run("sweep")
		}},
		End{Name: "gw-cgroup", Gateway: true, Tools: true, Do: killGroup},
		End{Name: "session", Gateway: true, Tools: true, Do: func(c *Cell) {
			session := filepath.Dir(filepath.Join(bed.Root(c.T), mustPath(c.T, c.G.PID)))
			if err := bed.Kill(session, escape.Patience); err != nil {
				c.T.Error(err)
			}
		}},
	)
	FillTable(t, "in a session", escape.Backend{Name: "cgroup"}, Modes(t, binaries.Programs), ends, sessionCell)
}

func sessionCell(t *testing.T, m escape.Mode, e End) escape.Result {
	s := newSessionWorld(t, "--eof-grace", "200ms")
	c := &Cell{
		T: t, End: e, G: s.g, Programs: binaries.Programs,
		Run:   func(args ...string) { s.run(args...) },
		Guard: func() *escape.Process { return s.await(s.guards) },
	}
	options := append([]string{
		"--sibling", s.Seen(s.Unique("sibling")), "--scratch", s.Seen(s.Unique("scratch")),
	}, m.Nice()...)
	r := c.Judge(strings.Join(options, " ")+" ", m.Name, s.Root, s.Plain("beside", s.Unique("beside")))
	escape.WantNoServers(t, s.dir, "*", escape.Patience)
	// a tool that is left keeps the session
	if err := bed.Kill(filepath.Join(s.dir, "agent"), escape.Patience); err != nil {
		t.Error(err)
	}
	s.run("sweep")
	s.removed()
	s.clean()
	return r
}

// The end of a gateway without anything that its tools have left removes its session, without a sweep.
func TestSessionEndsWithItsAgent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*sessionWorld){
		"exit": func(s *sessionWorld) { s.g.Tell("exit 0") },
		"kill": func(s *sessionWorld) { s.g.Own.Signal(unix.SIGKILL) },
		"kill, the watcher before": func(s *sessionWorld) {
			s.kill(s.watchers)
			s.g.Own.Signal(unix.SIGKILL)
		},
		"kill, the guard before": func(s *sessionWorld) {
			s.kill(s.guards)
			s.g.Own.Signal(unix.SIGKILL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSessionWorld(t)
			server := s.g.Server(binaries.Programs, "a", "ignore-both")
			s.run("sweep") // which has nothing to stop
			s.g.Answers("a")
			end(s)
			server.Gone(t)
			s.removed()
			s.empty(s.dir, name)
		})
	}
}

// startBeside starts a server outside of the session, which runs until the test has ended.
func (s *sessionWorld) startBeside(flags ...string) {
	s.T.Helper()
	line := append([]string{binaries.mcpscope, "run", "--backend", "cgroup"}, flags...)
	cmd := s.Command(append(line, "--", "cat")...)
	group := s.Unique("beside")
	in, out := escape.StartPiped(s.T, cmd, func() error { return escape.StartIn(group, cmd) })
	s.T.Cleanup(func() {
		in.Close()
		out.Close()
		_ = cmd.Wait() // it has ended with its input
	})
	if _, err := in.WriteString("up\n"); err != nil {
		s.T.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		s.T.Fatal(err)
	}
}

// Where guard and watcher were killed, the sweep of the next start stops the servers that no process ends, and the
// whole sweep removes the session. The agent lives on meanwhile, and keeps the session.
func TestSweepsLookIntoSessions(t *testing.T) {
	for name, sweep := range map[string]func(*sessionWorld){
		"a sweep":        func(s *sessionWorld) { s.run("sweep") },
		"the next start": func(s *sessionWorld) { s.startBeside() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSessionWorld(t)
			server := s.g.Server(binaries.Programs, "a", "ignore-both")
			if err := escape.KillTogether(s.await(s.watchers), s.await(s.guards)); err != nil {
				t.Error(err)
			}
			if len(server.Running()) == 0 {
				t.Error("without guards none lives: then this tests nothing")
			}
			sweep(s)
			server.Gone(t)
			Lives(t, "the agent", s.g.Own)
			s.run("sweep")
			Lives(t, "the agent", s.g.Own)
			if path := mustPath(t, s.g.PID); filepath.Base(path) != "agent" {
				t.Errorf("the agent is in %s", path)
			}
			s.g.Own.Signal(unix.SIGKILL)
			if !s.g.Own.Ended(escape.Patience) {
				t.Error("the agent outlives SIGKILL")
			}
			s.run("sweep")
			s.removed()
		})
	}
}

// Where there can be no session, or a limit of one cannot be applied, the gateway runs, and stderr says so once.
func TestNoSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		note  string
	}{
		"no cgroup":     {[]string{"--backend", "tree", "--session"}, "in no session: "},
		"no controller": {[]string{"--session-set", "pids.max=300"}, "in no session, without pids.max=300: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway(c.flags...)
			said := escape.Contents(g.Stderr)
			if strings.Count(said, "mcpscope: note: ") != 1 || strings.Count(said, c.note) != 1 {
				t.Errorf("stderr: %s", said)
			}
			if name == "no controller" && !strings.Contains(said, "mcpscope: hint: ") {
				t.Errorf("no next step: %s", said)
			}
			if path := mustPath(t, g.PID); strings.Contains(path, "mcp") {
				t.Errorf("it is in %s", path)
			}
			required := w.Command(w.line([]string{"true"}, append(c.flags, "--require")...)...)
			group := w.Unique("required")
			if err := escape.StartIn(group, required); err != nil {
				t.Fatal(err)
			}
			_ = required.Wait() // its status follows
			if required.ProcessState.ExitCode() != 125 {
				t.Errorf("with --require: %v", required.ProcessState)
			}
			if tree := escape.Tree(w.Dir); strings.Contains(tree, "mcp-session_") {
				t.Errorf("left: %s", tree)
			}
		})
	}
}
