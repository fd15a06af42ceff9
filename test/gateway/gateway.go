// SPDX-License-Identifier: Apache-2.0

// Package gateway runs a gateway below mcpscope gateway, and sends it commands. The tests on
// groups of root's own are beside it, those with a systemd in a package below.
package gateway

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A Gateway is like/main.go at work.
type Gateway struct {
	t      *testing.T
	in     *os.File
	lines  chan string
	Stderr *os.File
	Own    *escape.Process
	// Explain is where mcpscope says what it took, and Groups the directory of its servers' groups; "" where no test asks.
	Explain, Groups string
	servers         int // that were started
	// from its first line
	PID, Parent int
	Group       string
}

// Start starts it by start, and returns when it is up.
func Start(t *testing.T, cmd *exec.Cmd, start func() error) *Gateway {
	t.Helper()
	stderr := escape.MemoryFile(t)
	cmd.Stderr = stderr
	in, out := escape.StartPiped(t, cmd, start)
	endWith(t, cmd)
	g := Attach(t, in, out, stderr)
	if g.PID != cmd.Process.Pid && g.PID != 1 { // in a pid namespace
		t.Errorf("the gateway is %d, and was started as %d", g.PID, cmd.Process.Pid)
	}
	return g
}

// endWith ends a process with the test.
func endWith(t *testing.T, cmd *exec.Cmd) {
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
}

// StartContained is Start for one in a pid namespace, where its pid is another one.
func StartContained(t *testing.T, cmd *exec.Cmd) *Gateway {
	t.Helper()
	stderr := escape.MemoryFile(t)
	cmd.Stderr = stderr
	in, out := escape.StartPiped(t, cmd, cmd.Start)
	endWith(t, cmd)
	g := connect(t, in, out, stderr)
	g.introduce()
	return g
}

// Attach is Start for a gateway that another process has started.
func Attach(t *testing.T, in, out, stderr *os.File) *Gateway {
	t.Helper()
	g := connect(t, in, out, stderr)
	g.Up()
	return g
}

func connect(t *testing.T, in, out, stderr *os.File) *Gateway {
	t.Helper()
	g := &Gateway{t: t, in: in, lines: make(chan string, 1024), Stderr: stderr}
	t.Cleanup(func() {
		in.Close()
		out.Close()
		stderr.Close()
	})
	go func() {
		defer close(g.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			g.lines <- lines.Text()
		}
	}()
	return g
}

func (g *Gateway) introduce() {
	g.t.Helper()
	if n, _ := fmt.Sscan(g.Expect("up"), &g.PID, &g.Parent, &g.Group); n != 3 {
		g.t.Fatal("it did not say who it is")
	}
}

// Up waits until it says that it is up, for the first time or once more.
func (g *Gateway) Up() {
	g.t.Helper()
	g.introduce()
	var err error
	if g.Own, err = escape.OpenProcess(g.PID); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(g.Own.Close)
}

func (g *Gateway) Tell(format string, args ...any) { fmt.Fprintf(g.in, format+"\n", args...) } // EPIPE shows as no answer

// Uses has the next servers get stdio of a kind: sockets, or pipes as at first.
func (g *Gateway) Uses(kind string) {
	g.t.Helper()
	if kind == "sockets" {
		g.Tell("sockets")
		g.Expect("sockets")
	}
}

// Expect waits for a line that begins with a word, and returns the rest.
func (g *Gateway) Expect(word string) string {
	g.t.Helper()
	timeout := pace.After(escape.Patience)
	var others []string
	for {
		select {
		case line, open := <-g.lines:
			if !open {
				g.t.Fatalf("it has ended, without saying %q; it said %q, and on stderr: %s", word, others, escape.Contents(g.Stderr))
			}
			if rest, ok := strings.CutPrefix(line, word+" "); ok {
				return rest
			}
			others = append(others, line)
		case <-timeout:
			g.t.Fatalf("it did not say %q in %v; it said %q, and on stderr: %s", word, escape.Patience, others, escape.Contents(g.Stderr))
		}
	}
}

// Silent reports whether all its output was expected.
func (g *Gateway) Silent() bool { return len(g.lines) == 0 }

// A Server is one that it has started.
type Server struct {
	*escape.Members
	Name string
	Main *escape.Process
	// Where it was captured, if the gateway has groups.
	ID, Group string
}

// Server has it start a mode of the zoo and write to it, and returns when all members are up and captured.
func (g *Gateway) Server(p escape.Programs, name, mode string) *Server {
	g.t.Helper()
	s := g.Born("server", name, p.Zoo, mode)
	if g.Explain != "" {
		g.capture(s)
	}
	return s
}

// slow starts like a program of an interpreter: its client writes long before it reads. Until then it has
// started another process.
const slow = `#!/bin/sh
sleep 1000 &
until grep -q sleep /proc/$!/comm; do sleep 0.01; done
echo up >"$0.up"
until grep -q /mcp- /proc/self/cgroup; do sleep 0.01; done
exec "$@"
`

// Unnamed is Server for a server that is recognized only by its client's first bytes. It fails the test
// unless the process that it has started by then is in its group, too.
func (g *Gateway) Unnamed(dir string, p escape.Programs, name, mode string) *Server {
	g.t.Helper()
	script := filepath.Join(dir, "slow")
	if err := escape.WriteProgram(script, slow); err != nil {
		g.t.Fatal(err)
	}
	s := g.Born("quiet", name, script+" "+p.Zoo, mode, func() {
		if err := escape.AwaitText(script+".up", escape.Patience, func(text string) bool { return text != "" }); err != nil {
			g.t.Fatal(err)
		}
		g.Tell("hello %s", name)
	})
	g.capture(s)
	pids, err := escape.GroupPids(escape.Payload(s.Group))
	if !slices.ContainsFunc(pids, func(pid int) bool { return strings.Contains(escape.Describe(pid), "Name=sleep") }) {
		g.t.Errorf("%s: what it has started is not in its group: %s (%v)", name, escape.Tree(s.Group), err)
	}
	return s
}

// capture waits until one server more was captured than before, and finds its group.
func (g *Gateway) capture(s *Server) {
	g.t.Helper()
	g.servers++
	var text string
	err := escape.AwaitText(g.Explain, escape.Patience, func(now string) bool {
		text = now
		return strings.Count(now, takenAs) >= g.servers
	})
	if err != nil {
		g.t.Fatalf("server %d was not captured: %v", g.servers, err)
	}
	s.ID, _, _ = strings.Cut(text[strings.LastIndex(text, takenAs)+len(takenAs):], " ")
	if g.Groups == "" {
		return
	}
	s.Group = escape.FindGroup(g.Groups, s.ID)
	if s.Group != "" {
		return
	}
	// A manager removes a scope that all members have left.
	where, err := bed.ProcessPath(s.Main.PID)
	if err != nil || strings.Contains(where, s.ID) {
		g.t.Fatalf("no group of %s, in %s: %v", s.ID, where, err)
	}
	s.Group = filepath.Join(g.Groups, "removed-"+s.ID)
}

// Watcher is the process that judges what it executes.
func (g *Gateway) Watcher() *escape.Process {
	g.t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir)) // it is a number
		p, err := escape.OpenProcess(pid)
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(dir + "/cmdline") // held by the pidfd
		if strings.HasPrefix(string(line), fmt.Sprintf("mcpscope\x00watch\x00%d\x00", g.PID)) {
			g.t.Cleanup(p.Close)
			return p
		}
		p.Close()
	}
	g.t.Fatal("it has no watcher")
	return nil
}

// takenAs is before the id of a captured server, where mcpscope explains itself.
const takenAs = " taken as "

// Born has it start a mode of the zoo, by a command that ends with it, and returns when all its members are up. then is
// done when it was started.
func (g *Gateway) Born(how, name, command, options string, then ...func()) *Server {
	g.t.Helper()
	s := &Server{Members: escape.NewMembers(g.t), Name: name}
	g.t.Cleanup(s.Kill) // if it has not ended as it should
	g.Tell("%s %s %s --register %s %s", how, name, command, s.Address, options)
	g.Expect("server " + name)
	for _, do := range then {
		do()
	}
	if err := s.UntilReady(escape.Patience); err != nil {
		g.t.Fatalf("%s: %v; stderr: %s", options, err, escape.Contents(g.Stderr))
	}
	s.Main, _ = s.Members.Main()
	return s
}

// Answers fails the test unless a server answers.
func (g *Gateway) Answers(name string) {
	g.t.Helper()
	g.Tell("ask %s", name)
	if got := g.Expect("answer " + name); got != "ping" {
		g.t.Errorf("the server %s says %q", name, got)
	}
}

// Gone fails the test for each member that is left, and for a group.
func (s *Server) Gone(t *testing.T) (left int) {
	t.Helper()
	if left = s.UntilDead(escape.Patience); left > 0 {
		t.Errorf("%s: %d members left:\n\t%s", s.Name, left, strings.Join(s.Survivors(), "\n\t"))
		s.Kill()
	}
	if s.Group == "" {
		return left
	}
	if err := escape.AwaitRemoval(s.Group, escape.Patience); err != nil {
		t.Errorf("%s: %v: %s", s.Name, err, escape.Tree(s.Group))
	}
	return left
}

// Lives fails the test if a process that is to live does not.
func Lives(t *testing.T, what string, p *escape.Process) {
	t.Helper()
	if p.Ended(0) {
		t.Errorf("%s is dead", what)
	}
}

// Tool has it start a tool, and returns what that leaves running.
func (g *Gateway) Tool(what string) *escape.Process {
	g.t.Helper()
	g.Tell("%s", what)
	word, _, _ := strings.Cut(what, " ")
	var pid int
	if n, _ := fmt.Sscan(g.Expect(word), &pid); n != 1 {
		g.t.Fatalf("%s: no pid", what)
	}
	p, err := escape.OpenProcess(pid)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		p.Signal(9)
		p.Close()
	})
	return p
}
