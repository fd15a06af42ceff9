// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/scope"
)

// subject is one server that tries to escape, run as clients run servers.
//
// Each of its processes holds the write end of roll, and says so by a byte: the end of
// file tells that all are dead, without a pid that may be someone else's by then. Each
// also waits for the end of leash, so that none outlives us, whatever run is worth here
// and however we end.
type subject struct {
	launcher *os.Process
	stdin    *os.File
	out      *os.File // stdout and stderr of all
	roll     *os.File
	leash    *os.File
	said     bytes.Buffer
	saidAll  chan error
	returned chan struct{} // the launcher
}

const (
	selftestName = "selftest"
	// testGrace replaces both of run's graces: a case would otherwise take 2.2 s.
	testGrace   = "200ms"
	startWithin = 30 * time.Second
	// endWithin is both graces, and what a loaded machine takes for the rest: tree may hunt a
	// storm for some seconds.
	endWithin = time.Minute
)

// The descriptors that an escapee gets.
const (
	rollFD  = 3
	leashFD = 4
)

func startSubject(by programs, b scope.Backend, escape string) (*subject, error) {
	s := &subject{saidAll: make(chan error, 1), returned: make(chan struct{})}
	theirs, err := s.plumb()
	if err == nil {
		argv := trialRun(b, selftestName, "--eof-grace", testGrace, "--term-grace", testGrace, "--", by.server, "escape", escape)
		s.launcher, err = os.StartProcess(by.runner, argv, &os.ProcAttr{Env: settings.ServerEnvironment(), Files: theirs[:]})
	}
	for _, f := range theirs {
		_ = f.Close() // the launcher has its own; closing what was never opened does nothing
	}
	if err != nil {
		s.drop()
		return nil, err
	}
	go s.listen()
	go func() {
		_, _ = s.launcher.Wait() // that it returned is what counts
		close(s.returned)
	}()
	return s, nil
}

// plumb makes the pipes, and returns what the launcher gets as its descriptors.
func (s *subject) plumb() (theirs [5]*os.File, err error) {
	for _, p := range []struct{ read, write **os.File }{
		{&theirs[0], &s.stdin}, {&s.out, &theirs[1]}, {&s.roll, &theirs[rollFD]}, {&theirs[leashFD], &s.leash},
	} {
		if *p.read, *p.write, err = os.Pipe(); err != nil {
			return theirs, err
		}
	}
	theirs[2] = theirs[1]
	return theirs, nil
}

// listen ends with the last who holds stdout or stderr.
func (s *subject) listen() {
	_, err := io.Copy(&s.said, s.out)
	s.saidAll <- err
}

// awaitMembers waits until as many have said that they are there.
func (s *subject) awaitMembers(want int) (n int, err error) {
	_ = s.roll.SetReadDeadline(time.Now().Add(startWithin)) // a pipe has deadlines
	n, err = io.ReadFull(s.roll, make([]byte, want))
	if err == nil {
		return n, nil
	}
	_ = s.out.SetReadDeadline(time.Now()) // what it says explains it
	<-s.saidAll
	said, _, _ := strings.Cut(s.said.String(), "\n")
	return n, fmt.Errorf("it could not be tried, only %d of %d processes came: %s", n, want, said)
}

func (s *subject) end(how string) error {
	switch how {
	case "stdin-closed":
		return s.stdin.Close()
	case "sigterm":
		return s.launcher.Signal(unix.SIGTERM)
	case "launcher-killed":
		return s.launcher.Kill()
	}
	return errors.New("no such end: " + how)
}

// awaitEnd waits for all dead, the launcher's return, and the end of stdout.
func (s *subject) awaitEnd() error {
	deadline := time.Now().Add(endWithin)
	_ = s.roll.SetReadDeadline(deadline)
	_ = s.out.SetReadDeadline(deadline)
	if _, err := io.Copy(io.Discard, s.roll); err != nil {
		return fmt.Errorf("a process was left after %v: %s", endWithin, whoIsLeft())
	}
	if err := <-s.saidAll; err != nil {
		return fmt.Errorf("stdout was still open after %v", endWithin)
	}
	select {
	case <-s.returned:
		return nil
	case <-time.After(time.Until(deadline)):
		return fmt.Errorf("run had not returned after %v", endWithin)
	}
}

// whoIsLeft tells more of servers that have not ended.
func whoIsLeft() string {
	servers, _ := scope.List(os.Getuid()) // those that can be seen
	var said []string
	for _, l := range servers {
		defer l.Close()
		if l.Name != selftestName {
			continue
		}
		said = append(said, "server "+l.ID)
		pids, _ := l.Processes() // those that can be seen
		for _, pid := range append(pids, l.Supervisor, l.Launcher) {
			if st, err := proc.ReadStat(pid); err == nil {
				said = append(said, fmt.Sprintf("process %d (%q, below %d) in state %c", pid, st.Comm, st.PPID, st.State))
			}
		}
	}
	if len(said) == 0 {
		return "no server is there"
	}
	return strings.Join(said, ", ")
}

// close lets go of whoever is left.
func (s *subject) close() {
	_ = s.leash.Close()
	_ = s.launcher.Kill() // os knows whether it has been waited for
	<-s.returned
	_ = s.roll.SetReadDeadline(time.Now().Add(endWithin))
	_, _ = io.Copy(io.Discard, s.roll) // for the next case, which is not to be disturbed
	s.drop()
}

func (s *subject) drop() {
	for _, f := range []*os.File{s.stdin, s.out, s.roll, s.leash} {
		_ = f.Close() // closing what was never opened, or is closed, does nothing
	}
}
