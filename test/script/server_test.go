// SPDX-License-Identifier: Apache-2.0

package script

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A started server, with a client of its own.
type started struct {
	*escape.Client
	members *escape.Members
	guard   *escape.Process
}

// server NAME [FLAG…] [-- MODE]: a client starts a server of the zoo, which echoes, and ends with its stdin,
// unless the mode is another one. It is up. $NAME is its id, $NAME_client its client's pid.
func server(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 0, "server NAME [FLAG…] [-- MODE]")
	w := ts.Value("world").(*escape.World)
	name := args[0]
	flags := args[1:]
	mode := []string{"plain"}
	if i := slices.Index(flags, "--"); i >= 0 {
		mode = flags[i+1:]
		flags = flags[:i]
	}
	s := &started{members: escape.NewMembers(w.T)}
	line := []string{"env", "-C", ts.MkAbs("."), "MCPSCOPE_CONFIG=" + ts.Getenv("MCPSCOPE_CONFIG")}
	if session := ts.Getenv("CLAUDE_CODE_SESSION_ID"); session != "" {
		line = append(line, "CLAUDE_CODE_SESSION_ID="+session)
	}
	line = append(line, filepath.Join(dir, "mcpscope"), "run", "--name", name)
	line = append(append(line, flags...), "--", w.Programs.Zoo, "--register", s.members.Address)
	s.Client = w.NewClient(w.Unique("client"), []string{"--group"}, append(line, mode...))
	ts.Check(s.members.UntilReady(escape.Patience))
	_, id := s.members.Main()
	group := escape.FindGroup(filepath.Join(w.Dir, "mcp.slice", "0"), id)
	err := error(nil)
	if group == "" { // a tree
		s.guard, err = escape.GuardOfTree(id)
	} else {
		_, s.guard, err = escape.FindServer(filepath.Dir(group), id)
	}
	ts.Check(err)
	ts.Defer(s.guard.Close)
	ts.Value("servers").(map[string]*started)[name] = s
	ts.Setenv(name, id)
	ts.Setenv(name+"_client", strconv.Itoa(s.Own.PID))
}

// named is the server of a verb with these arguments.
func named(ts *testscript.TestScript, ok bool, args []string, text string) *started {
	usage(ts, ok, text)
	s := ts.Value("servers").(map[string]*started)[args[0]]
	if s == nil {
		ts.Fatalf("no server was started as %s", args[0])
	}
	return s
}

// lives NAME: it answers.
func lives(ts *testscript.TestScript, neg bool, args []string) {
	s := named(ts, !neg && len(args) == 1, args, "lives NAME")
	if question := "question " + strconv.Itoa(len(s.Lines())); !s.Lives(question) {
		ts.Fatalf("%s does not answer; %q; stderr: %s", args[0], s.Lines(), escape.Contents(s.Stderr))
	}
}

// close NAME: its client closes its stdin.
func closeInput(ts *testscript.TestScript, neg bool, args []string) {
	named(ts, !neg && len(args) == 1, args, "close NAME").Tell("close")
}

// running NAME: a process of it can run, right now.
func running(ts *testscript.TestScript, neg bool, args []string) {
	s := named(ts, len(args) == 1, args, "[!] running NAME")
	if all := s.members.Running(); len(all) > 0 == neg {
		ts.Fatalf("running: %q", all)
	}
}

// dead NAME [STATUS]: no process of it is left, or will be soon, and the client received the status: exit N
// or signal N. The file NAME.stderr contains its stderr.
func dead(ts *testscript.TestScript, neg bool, args []string) {
	s := named(ts, !neg && len(args) <= 3, args, "dead NAME [exit|signal N]")
	if n := s.members.UntilDead(escape.Patience); n > 0 {
		ts.Fatalf("%d members left: %q", n, s.members.Survivors())
	}
	if !s.Server.Ended(escape.Patience) || !s.guard.Ended(escape.Patience) {
		ts.Fatalf("its launcher or guard is there: %s, %s", escape.Describe(s.Server.PID), escape.Describe(s.guard.PID))
	}
	if want := strings.Join(args[1:], " "); want != "" && s.Status(escape.Patience) != want {
		ts.Fatalf("it ended with %q, want %q", s.Status(0), want)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".stderr"), []byte(escape.Contents(s.Stderr)), 0o600))
}

// signal SIGNAL client|launcher|guard NAME
func signal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "signal SIGNAL client|launcher|guard NAME")
	s := named(ts, true, args[2:], "")
	to := map[string]*escape.Process{"client": s.Own, "launcher": s.Server, "guard": s.guard}[args[1]]
	sig := unix.SignalNum("SIG" + args[0])
	usage(ts, to != nil && sig != 0, "signal SIGNAL client|launcher|guard NAME")
	if to == s.guard && sig == unix.SIGSTOP && !escape.AwaitSettled(s.guard) { // until then the launcher continues it
		ts.Fatalf("the start of %s is not settled", args[2])
	}
	to.Signal(sig)
	if sig == unix.SIGSTOP && !escape.AwaitStopped(to) { // a sweep must not meet one that still runs
		ts.Fatalf("%s does not stop", args[1])
	}
	if sig == unix.SIGKILL && !to.Ended(escape.Patience) { // a sweep must not meet it
		ts.Fatalf("%s outlives SIGKILL", args[1])
	}
}

// orphan NAME: its launcher and its guard are killed at once. Its main process dies with the launcher, and others go on.
func orphan(ts *testscript.TestScript, neg bool, args []string) {
	s := named(ts, !neg && len(args) == 1, args, "orphan NAME")
	for name, one := range ts.Value("servers").(map[string]*started) { // each sweeps when it has started
		if !one.Server.Ended(0) && !escape.AwaitSettled(one.guard) {
			ts.Fatalf("the start of %s is not settled", name)
		}
	}
	ts.Check(escape.KillTogether(s.guard, s.Server))
	if len(s.members.Running()) == 0 {
		ts.Fatalf("nothing of %s is left: this tests nothing", args[0])
	}
}

// terminal COLUMNS ANSWER PROGRAM ARGUMENT…: the program on a terminal, on which the answer has been typed.
// stdout is the content of the terminal.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 2, "terminal COLUMNS ANSWER PROGRAM ARGUMENT…")
	const line = `columns=$1 answer=$2; shift 2; printf %b "$answer" |
		script -qec "stty cols $columns -echo; exec $*" /dev/null | tr -d '\r'`
	ts.Check(ts.Exec("sh", append([]string{"-c", line, "sh"}, args...)...))
}

// full FIFO: a new one that takes no more, and that has a reader, which reads nothing.
func full(ts *testscript.TestScript, neg bool, args []string) {
	hold(ts, neg, args)
	fd, err := unix.Open(ts.MkAbs(args[0]), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	ts.Check(err)
	defer unix.Close(fd)
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 4096))
	}
}
