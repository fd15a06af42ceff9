// SPDX-License-Identifier: Apache-2.0

//go:build linux

package diagnose

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// testCase is a server with a child, which both ignore SIGTERM, and one way to stop them.
type testCase struct {
	Child   string  `json:"child"` // childInSession or childOutside
	End     string  `json:"end"`
	Passed  bool    `json:"passed"`
	Seconds float64 `json:"seconds"` // with the start
	Problem string  `json:"problem,omitempty"`
}

const (
	childInSession = "child"
	childOutside   = "setsid" // a child in its own session
	// for a loaded machine; a case takes 0.4 s
	startWithin, goneWithin = 30 * time.Second, time.Minute
)

// selftestEnds stop a server as clients do.
var selftestEnds = map[string]func(launcher *os.Process, stdin *os.File) error{
	"stdin-closed":    func(_ *os.Process, stdin *os.File) error { return stdin.Close() },
	"sigterm":         func(launcher *os.Process, _ *os.File) error { return launcher.Signal(unix.SIGTERM) },
	"launcher-killed": func(launcher *os.Process, _ *os.File) error { return launcher.Kill() },
}

// Selftest starts and stops six servers, one after the other.
func Selftest(by programs, b protocol.Backend) (cases []testCase) {
	for _, end := range slices.Sorted(maps.Keys(selftestEnds)) {
		for _, child := range []string{childInSession, childOutside} {
			c := testCase{Child: child, End: end}
			began := time.Now()
			if err := c.try(by, b); err != nil {
				c.Problem = err.Error()
			}
			c.Passed, c.Seconds = c.Problem == "", time.Since(began).Seconds()
			cases = append(cases, c)
		}
	}
	return cases
}

// try: each process holds the write end of roll, so end of file proves that all are dead, without pids, which
// can be reused. Each process exits at the end of file on leash, so none outlives doctor if run fails.
func (c *testCase) try(by programs, b protocol.Backend) error {
	var stdin, roll, leash struct{ read, write *os.File }
	for _, p := range []*struct{ read, write *os.File }{&stdin, &roll, &leash} {
		var err error
		if p.read, p.write, err = os.Pipe(); err != nil {
			return err
		}
		defer p.read.Close()
		defer p.write.Close()
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	argv := trialRun(b, "selftest", "--eof-grace", "200ms", "--term-grace", "200ms",
		"--", by.server, StayCommand, c.Child)
	launcher, err := os.StartProcess(by.runner, argv, &os.ProcAttr{
		Env: settings.ServerEnvironment(), Files: []*os.File{stdin.read, null, null, roll.write, leash.read},
	})
	for _, f := range []*os.File{stdin.read, roll.write, leash.read} {
		_ = f.Close() // the launcher has duplicates
	}
	if err != nil {
		return err
	}
	defer func() {
		_ = leash.write.Close()
		_ = launcher.Kill() // not a bare pid: package os tracks whether it was reaped
		_, _ = launcher.Wait()
	}()
	_ = roll.read.SetReadDeadline(time.Now().Add(startWithin)) // a pipe has deadlines
	if _, err := io.ReadFull(roll.read, make([]byte, 2)); err != nil {
		return fmt.Errorf("the server did not start: %w", err)
	}
	if err := selftestEnds[c.End](launcher, stdin.write); err != nil {
		return err
	}
	_ = roll.read.SetReadDeadline(time.Now().Add(goneWithin))
	if _, err := io.Copy(io.Discard, roll.read); err != nil {
		return fmt.Errorf("a process is left after %v", goneWithin)
	}
	return nil
}

// StayCommand is a hidden command: server and child of the selftest.
const StayCommand = "stay"

func Stay(args []string, io cli.Stdio) int {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	roll, leash := os.NewFile(3, "roll"), os.NewFile(4, "leash")
	err := errors.New("only mcpscope doctor --selftest starts it")
	if len(args) == 1 {
		_, err = roll.Write([]byte{'.'})
	}
	if err == nil && args[0] != StayCommand {
		child := exec.Command("/proc/self/exe", StayCommand, StayCommand)
		child.ExtraFiles = []*os.File{roll, leash}
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: args[0] == childOutside}
		err = child.Start()
	}
	if err != nil {
		return io.Cannot(StayCommand, err)
	}
	_, _ = leash.Read(make([]byte, 1)) // until it is killed, or doctor exits
	return cli.ExitOK
}
