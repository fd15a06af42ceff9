// SPDX-License-Identifier: Apache-2.0

// Package gateway runs a gateway below mcpscope gateway, and tells it what to do. The tests on
// groups of root's own are beside it, those with a systemd in a package below.
package gateway

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A Gateway is like/main.go at work.
type Gateway struct {
	t      *testing.T
	in     *os.File
	lines  chan string
	Stderr *os.File
	Own    *escape.Process
	// Explain is where mcpscope says what it took, "" where it is not there.
	Explain string
	servers int // that were started
	// What it has said of itself.
	PID, Parent, Session int
	Group                string
}

// Start starts it by start, and returns when it is up.
func Start(t *testing.T, cmd *exec.Cmd, start func() error) *Gateway {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := escape.OpenMemory("stderr")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, stderr
	err = start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		t.Fatal(err)
	}
	g := Attach(t, in, out, stderr)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
	if g.PID != cmd.Process.Pid {
		t.Errorf("the gateway is %d, and was started as %d", g.PID, cmd.Process.Pid)
	}
	return g
}

// Attach is Start for one that somebody else has started.
func Attach(t *testing.T, in, out, stderr *os.File) *Gateway {
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
	g.Up()
	return g
}

// Up waits until it says that it is up, for the first time or once more.
func (g *Gateway) Up() {
	g.t.Helper()
	if n, _ := fmt.Sscan(g.Expect("up"), &g.PID, &g.Parent, &g.Session, &g.Group); n != 4 {
		g.t.Fatal("it did not say who it is")
	}
	var err error
	if g.Own, err = escape.OpenProcess(g.PID); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(g.Own.Close)
}

// Tell tells it to do something.
func (g *Gateway) Tell(format string, args ...any) { fmt.Fprintf(g.in, format+"\n", args...) } // EPIPE shows as no answer

// Expect waits for a line that begins with a word, and returns the rest.
func (g *Gateway) Expect(word string) string {
	g.t.Helper()
	timeout := time.NewTimer(escape.Patience)
	defer timeout.Stop()
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
		case <-timeout.C:
			g.t.Fatalf("it did not say %q in %v; it said %q, and on stderr: %s", word, escape.Patience, others, escape.Contents(g.Stderr))
		}
	}
}

// A Server is one that it has started.
type Server struct {
	*escape.Members
	Name string
	Main *escape.Process
	// Of a cell's.
	ID, Group  string
	Supervisor *escape.Process
}

// Server has it start a mode of the zoo, and returns when all its members are up.
func (g *Gateway) Server(p escape.Programs, name, mode string) *Server {
	g.t.Helper()
	return g.start("server", p, name, mode)
}

// Late is Server for one that is spoken to when all its members are up.
func (g *Gateway) Late(p escape.Programs, name, mode string) *Server {
	g.t.Helper()
	return g.start("quiet", p, name, mode)
}

func (g *Gateway) start(how string, p escape.Programs, name, mode string) *Server {
	g.t.Helper()
	s := &Server{Members: escape.NewMembers(g.t), Name: name}
	g.t.Cleanup(s.Kill) // if it has not ended as it should
	g.Tell("%s %s %s --register %s --slow yes %s", how, name, p.Zoo, s.Address, mode)
	g.Expect("server " + name)
	if err := s.UntilReady(escape.Patience); err != nil {
		g.t.Fatalf("%s: %v; stderr: %s", mode, err, escape.Contents(g.Stderr))
	}
	s.Main, _ = s.Members.Main()
	if how == "quiet" {
		g.Tell("hello %s", name)
		g.Expect("hello")
	}
	g.awaitTaken(name)
	return s
}

// AwaitTaken waits until one server more has been taken.
func (g *Gateway) AwaitTaken() { g.awaitTaken("") }

// awaitTaken has the client speak to that server again where it was not taken at its first message: on a busy
// machine that can be missed.
func (g *Gateway) awaitTaken(name string) {
	g.t.Helper()
	g.servers++
	if g.Explain == "" {
		return
	}
	taken := func(text string) bool { return strings.Count(text, " taken as ") >= g.servers }
	var err error
	for until := time.Now().Add(escape.Patience); time.Now().Before(until); {
		if err = escape.AwaitText(g.Explain, time.Second, taken); err == nil {
			return
		}
		if name != "" {
			g.Tell("hello %s", name)
			g.Expect("hello")
		}
	}
	g.t.Fatalf("server %d was not taken: %v", g.servers, err)
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
