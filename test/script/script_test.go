// SPDX-License-Identifier: Apache-2.0

// Package script has what the documents promise as scripts of testscript, each named by its promise. They run
// the real programs in real control groups, in worlds of their own, and wait for the kernel and never for
// time.
package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// dir has what build makes.
var dir string

func TestMain(m *testing.M) {
	escape.Choose(m, "script")
	bed.Parallel(8)
	bed.Main(m, escape.BuildTemporary(func(made string) map[string][]string {
		// configured is a mcpscope of another version with a system's settings file of the tests' own, which one
		// script writes.
		dir = made
		const version = "-X github.com/mcpscope/mcpscope/internal/programs.release=v0.9.0 -X github.com/mcpscope/mcpscope/internal/programs.commit=0123abcd"
		return map[string][]string{"configured/mcpscope": escape.Go("-ldflags", "-X github.com/mcpscope/mcpscope/internal/settings.system="+dir+"/system.toml "+version, "../../cmd/mcpscope")}
	}))
}

// tested makes a script's own *testing.T known to setUp.
type tested struct{ *testing.T }

func (t tested) Verbose() bool { return testing.Verbose() }
func (t tested) Run(name string, test func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { test(tested{t}) })
}

func TestScripts(t *testing.T) {
	deadline, _ := t.Deadline()
	files, err := escape.Scripts(t, "testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.RunT(tested{t}, testscript.Params{
		Files: files, Setup: setUp, Condition: condition, RequireExplicitExec: true, RequireUniqueNames: true, Deadline: deadline,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "close": closeInput, "dead": dead, "ended": ended, "full": full, "gone": gone, "hold": hold, "lives": lives,
			"orphan": orphan, "refused": refused, "release": release, "running": running, "server": server, "signal": signal, "status": status,
			"terminal": terminal,
		},
	})
}

// condition: installed is whether $PROGRAM is an installed one, and in no temporary directory.
func condition(name string) (bool, error) {
	if name == "installed" {
		return escape.Installed() != "", nil
	}
	return false, fmt.Errorf("unknown condition %s", name)
}

// scriptPatience is how long a whole script may take, which is some seconds.
const scriptPatience = 4 * escape.Patience

// setUp makes a world. The command mcpscope, and commands after "inside", run in it, in the group "clients".
// $PROGRAM is the file.
func setUp(env *testscript.Env) error {
	w := escape.NewWorld(env.T().(tested).T, escape.ProgramsIn(dir))
	clients := w.Group("clients")
	end := func() { // also when it failed: testscript waits for its children
		for _, group := range []string{clients, filepath.Join(w.Dir, "mcp.slice")} {
			_ = bed.Kill(group, escape.Patience) // the end of the world fails if it could not
		}
	}
	ctx, cancel := pace.Context(scriptPatience)
	stop := context.AfterFunc(ctx, end) // a command that does not return fails its script, not all others
	env.Defer(func() {
		stop()
		cancel()
		end()
	})
	bin := filepath.Join(env.WorkDir, ".bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	for name, program := range map[string]string{"mcpscope": dir + "/mcpscope", "configured": dir + "/configured/mcpscope", "inside": ""} {
		line := fmt.Sprintf("#!/bin/sh\necho $$ >%s/cgroup.procs && exec %s --in %d -- env -C \"$PWD\" %s \"$@\"\n",
			clients, w.Programs.World, w.Root.Cmd.Process.Pid, program)
		if err := escape.WriteProgram(filepath.Join(bin, name), line); err != nil {
			return err
		}
	}
	env.Setenv("PATH", bin+":"+env.Getenv("PATH"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("PROGRAM", filepath.Join(dir, "mcpscope"))
	env.Setenv("SYSTEM", filepath.Join(dir, "system.toml"))
	env.Setenv("CONFIGURED", filepath.Join(dir, "configured"))
	env.Setenv("ZOO", w.Programs.Zoo)
	env.Setenv("MCPSCOPE_EOF_GRACE", "1m") // a script's stdin is at its end before the server is there
	env.Values["world"] = w
	env.Values["held"] = map[string]*os.File{}
	env.Values["servers"] = map[string]*started{}
	return nil
}

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

// status N PROGRAM ARGUMENT…: the program ends with status N, or by signal -N.
func status(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 1, "status N PROGRAM ARGUMENT…")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var exit *exec.ExitError
	got := 0
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
		if s := exit.Sys().(syscall.WaitStatus); s.Signaled() {
			got = -int(s.Signal())
		}
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

// complaint is one line of ours, and at most one hint.
var complaint = regexp.MustCompile(`^mcpscope: .*\n(mcpscope: hint: .*\n)?$`)

// refused N PROGRAM ARGUMENT…: the same, with a complaint and no output.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	status(ts, neg, args)
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("stdout is %q", out)
	}
	if text := ts.ReadFile("stderr"); !complaint.MatchString(text) || strings.HasPrefix(text, "mcpscope: hint: ") {
		ts.Fatalf("stderr is %q, want one line `mcpscope: …` and at most one `mcpscope: hint: …`", text)
	}
}

// await FILE REGEXP: the file has such a text.
func await(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "await FILE REGEXP")
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	ts.Check(escape.AwaitText(ts.MkAbs(args[0]), escape.Patience, want.MatchString))
}

// hold FIFO: a new one has a writer, until release FIFO.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "hold FIFO")
	path := ts.MkAbs(args[0])
	ts.Check(unix.Mkfifo(path, 0o600))
	file, err := os.OpenFile(path, os.O_RDWR, 0) // without a reader O_WRONLY alone waits for one
	ts.Check(err)
	ts.Value("held").(map[string]*os.File)[args[0]] = file
	ts.Defer(func() { file.Close() })
}

func release(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "release FIFO")
	ts.Check(ts.Value("held").(map[string]*os.File)[args[0]].Close())
}

// ended FIFO: no process has it open for writing any more. One has to have been seen.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 1, "[!] ended FIFO")
	fd, err := unix.Open(ts.MkAbs(args[0]), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	ts.Check(err)
	defer unix.Close(fd)
	_, err = unix.Read(fd, make([]byte, 1)) // EOF, unless there is a writer
	over := err == nil || !neg && escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	if over == neg {
		ts.Fatalf("ended: %v: %v", over, err)
	}
}

// gone: no group of a server is left in the world, or will be soon.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 0, "gone")
	w := ts.Value("world").(*escape.World)
	slice := filepath.Join(w.Dir, "mcp.slice", "0")
	escape.WantNoServers(w.T, slice, "*", escape.Patience)
	escape.AwaitGuards(w.T, slice)
}
