// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// id is that of the session.
func (s *sessionWorld) id() string {
	name := strings.TrimSuffix(filepath.Base(s.dir), ".slice")
	return name[strings.LastIndexByte(name, '_')+1:]
}

// isFrozen reads what the kernel says of the whole session.
func (s *sessionWorld) isFrozen() bool {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "cgroup.events"))
	if err != nil {
		s.T.Error(err)
	}
	return strings.Contains(string(text), "frozen 1")
}

// refuses fails the test unless a command fails with all of the texts in its stderr.
func (w *world) refuses(texts []string, args ...string) {
	w.T.Helper()
	o, err := escape.Finish(w.Dir, w.Command(append([]string{binaries.mcpscope}, args...)...))
	if err != nil || o.Status == 0 || o.Stdout != "" {
		w.T.Errorf("mcpscope %q: %v, status %v, stdout %q", args, err, o.Status, o.Stdout)
	}
	for _, text := range texts {
		if !strings.Contains(o.Stderr, text) {
			w.T.Errorf("mcpscope %q: stderr lacks %q: %s", args, text, o.Stderr)
		}
	}
}

// another is a second session in the same world.
func (s *sessionWorld) another() *sessionWorld {
	s.T.Helper()
	w := &world{s.World, filepath.Join(s.T.TempDir(), "explain")}
	return sessionIn(w)
}

// prints fails the test unless a command prints all of the texts.
func (w *world) prints(texts []string, args ...string) {
	w.T.Helper()
	out := w.run(args...)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			w.T.Errorf("mcpscope %q lacks %q: %s", args, text, out)
		}
	}
}

// A command that names a session acts on its agent and its servers, and on nothing else.
func TestSessionIsActedOn(t *testing.T) {
	t.Parallel()
	s := newSessionWorld(t)
	other := s.another()
	one := s.g.Server(binaries.Programs, "one", "plain")
	two := s.g.Server(binaries.Programs, "two", "setsid")
	tool := s.g.Tool("tool")
	theirs := other.g.Server(binaries.Programs, "theirs", "plain")
	s.prints([]string{"like: 2 servers", "like: 1 server ", "  zoo "}, "ls")
	s.listed(one, two)

	for _, verb := range []string{"stop", "freeze", "thaw", "set", "inspect"} {
		s.prints([]string{s.id() + "\n", other.id() + "\n", "like\n", one.ID + "\n"}, "__complete", verb, "")
	}

	both := []string{s.id(), other.id(), "several sessions"}
	s.refuses(both, "freeze", "like")
	s.refuses(both, "stop", "like")
	s.refuses([]string{`no server "liked"`}, "stop", "liked")
	s.refuses([]string{"the session like (" + s.id() + ")"}, "set", s.id(), "memory.max=1G")

	s.prints([]string{"frozen the session like (" + s.id() + ")"}, "freeze", s.id())
	if !s.isFrozen() || other.isFrozen() {
		t.Errorf("frozen are %v and, of the other session, %v", s.isFrozen(), other.isFrozen())
	}
	other.g.Answers("theirs")
	s.prints([]string{"is frozen already"}, "freeze", s.id())
	s.prints([]string{"state", "frozen", s.id(), "like"}, "inspect", s.id())
	s.refuses([]string{"frozen as a whole", "mcpscope thaw " + s.id()}, "thaw", one.ID)
	s.prints([]string{"thawed the session like"}, "thaw", s.id()[:4])
	s.prints([]string{"is not frozen"}, "thaw", s.id())
	s.g.Answers("one")
	s.g.Answers("two")

	s.run("freeze", s.id())
	s.prints([]string{"stopped the session like (" + s.id() + ")"}, "stop", s.id())
	one.Gone(t)
	two.Gone(t)
	escape.WantEnded(t, s.g.Own, tool)
	s.removed()
	other.g.Answers("theirs")
	Lives(t, "the other agent", other.g.Own)
	s.startBeside("--name", "like")
	s.refuses([]string{"a server and a session", other.id()}, "stop", "like")
	s.prints([]string{"stopped the session like"}, "stop", other.id())
	theirs.Gone(t)
	other.removed()
}

// listed fails the test unless ls --json has the session with these servers.
func (s *sessionWorld) listed(servers ...*Server) {
	s.T.Helper()
	var list struct {
		Servers []struct {
			ID        string
			InSession string `json:"in_session"`
		}
		Sessions []struct {
			ID, Name, State    string
			Servers, Processes int
			Client             struct{ PID int } // its agent
		}
	}
	if err := json.Unmarshal([]byte(s.run("ls", "--json")), &list); err != nil {
		s.T.Fatal(err)
	}
	inside := map[string]bool{}
	for _, v := range list.Servers {
		inside[v.ID] = v.InSession == s.id()
	}
	for _, server := range servers {
		if !inside[server.ID] {
			s.T.Errorf("%s is not in the session %s: %+v", server.Name, s.id(), list)
		}
	}
	for _, v := range list.Sessions {
		if v.ID != s.id() {
			continue
		}
		if v.Name != "like" || v.State != "running" || v.Servers != len(servers) || v.Processes < 1+len(servers) ||
			v.Client.PID != s.g.PID {
			s.T.Errorf("the session is listed as %+v", v)
		}
		return
	}
	s.T.Errorf("the session %s is not listed: %+v", s.id(), list)
}

// A frozen agent that is killed ends its servers, too.
func TestFrozenSessionEnds(t *testing.T) {
	t.Parallel()
	s := newSessionWorld(t)
	server := s.g.Server(binaries.Programs, "a", "ignore-both")
	s.run("freeze", s.id())
	s.g.Own.Signal(unix.SIGKILL)
	server.Gone(t)
	s.removed()
	s.clean()
}

// A command cannot freeze or stop the session that it runs in: it would not end.
func TestSessionIsNotActedOnFromWithin(t *testing.T) {
	t.Parallel()
	s := newSessionWorld(t)
	agent := filepath.Join(s.dir, "agent")
	for _, verb := range []string{"freeze", "stop"} {
		cmd := s.Command(binaries.mcpscope, verb, s.id())
		stderr := escape.MemoryFile(t)
		cmd.Stderr = stderr
		if err := escape.StartIn(agent, cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(escape.Contents(stderr), "from another terminal") {
			t.Errorf("%s: %v, %s", verb, err, escape.Contents(stderr))
		}
	}
	if s.isFrozen() {
		t.Error("it is frozen")
	}
	Lives(t, "the agent", s.g.Own)
}

// A server that is idle, and gets input while its session is frozen, answers after the thaw.
func TestIdleServerInFrozenSession(t *testing.T) {
	t.Parallel()
	s := newSessionWorld(t, "--idle-freeze", "300ms")
	server := s.g.Server(binaries.Programs, "a", "plain")
	if err := escape.AwaitIdle(server.Group, 0, escape.Patience); err != nil {
		t.Fatal(err)
	}
	s.run("freeze", s.id())
	stdin, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/0", server.Main.PID), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if _, err := stdin.WriteString("ping\n"); err != nil {
		t.Fatal(err)
	}
	if err := escape.AwaitWake(server.Group, 1, escape.Patience); err != nil {
		t.Error(err)
	}
	if !s.isFrozen() {
		t.Error("the session is not frozen any more")
	}
	s.run("thaw", s.id())
	s.g.Answers("a")
}
