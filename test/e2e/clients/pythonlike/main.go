// SPDX-License-Identifier: Apache-2.0

// Pythonlike is a test client that starts and ends its server as the official
// Python SDK does, without the need for Python: six variables of the environment,
// a session of its own, and on the way out stdin closed, 2 s, SIGTERM to the
// process group, 2 s, SIGKILL to the process group. If the main process exits
// within the first 2 s that is all: the rest of the group is left alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/mcpscope/mcpscope/test/e2e/clients/contract"
)

const (
	exitGrace = 2 * time.Second // the SDK's PROCESS_TERMINATION_TIMEOUT
	termGrace = 2 * time.Second // its timeout_seconds for the process group
	reapGrace = 2 * time.Second // it doesn't wait for longer after SIGKILL
)

func main() { contract.Main("pythonlike", connect) }

func connect(ctx context.Context, command []string) (contract.Session, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environment()
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	rpc, err := start(cmd)
	if err != nil {
		return nil, err
	}
	s := &session{rpc: rpc, cmd: cmd, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how the server ended is not this client's business
		close(s.exited)
	}()
	return s, s.initialize(ctx)
}

// environment has the variables that the SDK passes on by default. None of them
// leads to a user manager or a session bus.
func environment() []string {
	env := []string{} // not nil, which would inherit everything
	for _, name := range []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

type session struct {
	*rpc
	cmd    *exec.Cmd
	exited chan struct{} // closed once the main process has been reaped
}

func (s *session) initialize(ctx context.Context) error {
	params := map[string]any{
		"protocolVersion": "2025-06-18",
		"capabilities":    map[string]any{},
		"clientInfo":      map[string]any{"name": "pythonlike", "version": "1"},
	}
	if err := s.request(ctx, "initialize", params, nil); err != nil {
		return err
	}
	return s.notify("notifications/initialized")
}

func (s *session) Tools(ctx context.Context) ([]string, error) {
	var list struct {
		Tools []struct{ Name string }
	}
	if err := s.request(ctx, "tools/list", map[string]any{}, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (s *session) Call(ctx context.Context, tool string, args map[string]any) (text string, isError bool, err error) {
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	params := map[string]any{"name": tool, "arguments": args}
	if err := s.request(ctx, "tools/call", params, &result); err != nil {
		return "", false, err
	}
	for _, part := range result.Content {
		text += part.Text
	}
	return text, result.IsError, nil
}

func (s *session) Close() error {
	if err := s.stdin.Close(); err != nil {
		return err
	}
	if s.exitedWithin(exitGrace) {
		return nil
	}
	s.signalGroup(syscall.SIGTERM)
	if s.groupGoneWithin(termGrace) {
		return nil
	}
	s.signalGroup(syscall.SIGKILL)
	if !s.exitedWithin(reapGrace) {
		return fmt.Errorf("abandoned process %d", s.cmd.Process.Pid)
	}
	return errors.New("the process group had to be killed")
}

func (s *session) exitedWithin(grace time.Duration) bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(grace):
		return false
	}
}

// groupGoneWithin polls like the SDK: no event reports that a process group is empty.
func (s *session) groupGoneWithin(grace time.Duration) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(grace)
	for {
		if s.signalGroup(0) == syscall.ESRCH {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
}

// signalGroup signals the group by the main process's id, which is its leader's.
func (s *session) signalGroup(sig syscall.Signal) error {
	return syscall.Kill(-s.cmd.Process.Pid, sig)
}
