// SPDX-License-Identifier: Apache-2.0

//go:build linux

package scope_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/scope"
	"github.com/mcpscope/mcpscope/test/bed"
)

func TestMain(m *testing.M) {
	bed.Main(m, func() (func(), error) {
		dir, err := os.MkdirTemp("", "mcpscope-library.")
		if err != nil {
			return nil, err
		}
		cleanup := func() { _ = os.RemoveAll(dir) } // what is left is in the temporary directory
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "mcpscope"), "../cmd/mcpscope")
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // the race detector needs cgo
		if out, err := build.CombinedOutput(); err != nil {
			return cleanup, fmt.Errorf("%w: %s", err, out)
		}
		return cleanup, os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	})
}

// A gateway has fifty servers and as many children of its own. All have their statuses and their output, and
// nothing of a server is left when Wait has returned.
func TestFiftyServersInOneProgram(t *testing.T) {
	const servers = 50
	var all sync.WaitGroup
	var running sync.WaitGroup
	running.Add(servers)
	for i := range servers {
		all.Go(func() {
			if err := oneOfMany(i, &running); err != nil {
				t.Errorf("server %d: %v", i, err)
			}
		})
		all.Go(func() {
			own := exec.Command("sh", "-c", fmt.Sprint("exit ", i))
			if _ = own.Run(); own.ProcessState.ExitCode() != i {
				t.Errorf("a child of the program ended with %v, want %d", own.ProcessState, i)
			}
		})
	}
	all.Wait()
	var st unix.Stat_t
	if err := unix.Fstat(1, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
		t.Errorf("the program's stdout is /dev/null now (%v)", err)
	}
}

// oneOfMany runs a server that leaves a process in a session of its own, and waits until all servers run.
func oneOfMany(i int, running *sync.WaitGroup) error {
	cmd := scope.Command("sh", "-c", `setsid sh -c 'echo $$; exec sleep 1000' & read word; exit "$word"`)
	name := fmt.Sprint("number-", i)
	cmd.Flags = []string{"--name", name}
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	err := errors.Join(inErr, outErr, cmd.Start())
	var left int
	if err == nil {
		_, err = fmt.Fscan(bufio.NewReader(out), &left)
	}
	running.Done()
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(left, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	running.Wait()
	fmt.Fprintln(in, i)
	err = cmd.Wait()
	var exit *scope.ExitError
	switch {
	case i == 0 && err != nil, i > 0 && !errors.As(err, &exit):
		return fmt.Errorf("ended with %v", err)
	case i > 0 && (exit.ExitCode() != i || !strings.Contains(string(exit.Report), name) || exit.Cause != "main-exited"):
		return fmt.Errorf("ended with %v, %s", err, exit.Report)
	}
	ended := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	if n, err := unix.Poll(ended, 0); n != 1 {
		return fmt.Errorf("process %d of it is left (%v)", left, err)
	}
	return nil
}

// The errors distinguish a command that cannot be executed from a server that failed.
func TestErrors(t *testing.T) {
	var exit *scope.ExitError
	if err := scope.Command("/nonexistent").Run(); !errors.As(err, &exit) || exit.ExitCode() != 127 || exit.Cause != "" {
		t.Errorf("a command that is not there: %v", err)
	}
	missing := scope.Command("true")
	missing.Path = "/nonexistent"
	if err := missing.Start(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without mcpscope: %v", err)
	}
	if scope.Command("true").Wait() == nil {
		t.Error("waited for a server that was not started")
	}
}

// As with os/exec, the stderr of a failure is in the error, and what mcpscope refuses is named.
func TestErrorsSayWhy(t *testing.T) {
	var exit *scope.ExitError
	_, err := scope.Command("sh", "-c", "echo why >&2; exit 3").Output()
	if !errors.As(err, &exit) || string(exit.Stderr) != "why\n" {
		t.Errorf("%v has the stderr %q", err, exit.Stderr)
	}
	weaker := scope.Command("true")
	weaker.Flags = []string{"--backend=tree", "--require"}
	if err := weaker.Run(); err == nil || !strings.Contains(err.Error(), "--require") {
		t.Errorf("a backend that is refused: %v", err)
	}
	own := scope.Command("true")
	own.Flags = []string{"--report=/dev/null"}
	if err := own.Run(); err == nil || !strings.Contains(err.Error(), "Cmd.Report") {
		t.Errorf("a report of one's own: %v", err)
	}
}

// A server whose stdin is no pipe ends with the program, too. Its report is there after any end.
func TestServerEndsWithTheProgram(t *testing.T) {
	if file := os.Getenv("SCOPE_PROGRAM"); file != "" {
		fmt.Fprintln(os.Stderr, scope.Command("sh", "-c", "echo $$ >"+file+"; exec sleep 1000").Run())
		return
	}
	fifo := filepath.Join(t.TempDir(), "pid")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	program := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithTheProgram$")
	program.Env = append(os.Environ(), "SCOPE_PROGRAM="+fifo)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	main := 0
	if _, err := fmt.Sscan(string(text), &main); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(main, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	_ = program.Process.Kill()
	_ = program.Wait()
	ended := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	if n, err := unix.Poll(ended, 60_000); n != 1 {
		t.Errorf("the server lives on (%v)", err)
	}
	cmd := scope.Command("true")
	if err := cmd.Run(); err != nil || !strings.Contains(string(cmd.Report()), "main-exited") {
		t.Errorf("%v, and the report is %q", err, cmd.Report())
	}
}

// A launcher that is killed has a successor: Wait returns when that has stopped the server.
func TestKilledLauncher(t *testing.T) {
	cmd := scope.Command("sh", "-c", `trap '' TERM; echo $PPID $$; while :; do sleep 1000; done`)
	cmd.Flags = []string{"--term-grace", "10ms"}
	out, write, err := os.Pipe() // Wait would close one of StdoutPipe, which stops the server as well
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer write.Close()
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var parent, main int
	if _, err := fmt.Fscan(bufio.NewReader(out), &parent, &main); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(main, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *scope.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Cause != "launcher-gone" {
		t.Errorf("%v", err)
	}
	ended := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	if n, err := unix.Poll(ended, 0); n != 1 {
		t.Errorf("the server is left (%v)", err)
	}
}
