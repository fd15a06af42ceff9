// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package session runs an MCP client over a server and keeps hold of every
// process that belongs to the two, so that what is left after the client has
// closed or died can be named, waited for and ended.
//
// It waits for pidfds, never for a time to pass, and sends signals through them
// only: it can neither miss a process that it has seen nor hit another one. It
// knows the contract of the test clients (test/e2e/clients/contract) and nothing
// of how mcpscope is built; the demo and the end-to-end tests share it.
package session

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A Config says what to run.
type Config struct {
	Client []string // the client and its flags
	Server []string // the server's command, as a client's configuration has it
	Dir    string   // working directory of both
	Stderr *os.File // of both; a file or nil, as left-over processes keep it open

	Attr *syscall.SysProcAttr // how the client is started, if anyhow special

	// Mark is a word that nothing else on the host has in its arguments or in its
	// cgroup's path. Processes that have it are the session's even if they are no
	// descendants of the client. Empty for a server without mcpscope.
	Mark string
}

// A Hello is the client's account of what the server answered.
type Hello struct {
	Tools int
	Call  string
	Text  string
}

// A Session is a client that runs, its server, and what is known of them.
type Session struct {
	config Config
	cmd    *exec.Cmd
	orders *os.File // the client's stdin
	lines  *bufio.Reader
	stdout *os.File // what lines reads

	seen map[identity]*Process
}

// helloGrace and closeGrace bound what a client may take to connect, and to close:
// no SDK waits for longer than 5 s on each of three rungs.
const (
	helloGrace = 30 * time.Second
	closeGrace = 20 * time.Second
)

// Start starts the client, which starts the server.
func Start(c Config) (*Session, error) {
	theirStdin, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirStdin.Close()
	stdout, theirStdout, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer theirStdout.Close()

	args := append(append(c.Client[1:len(c.Client):len(c.Client)], "--"), c.Server...)
	cmd := exec.Command(c.Client[0], args...)
	cmd.SysProcAttr = c.Attr
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, theirStdin, theirStdout, c.Stderr
	s := &Session{
		config: c, cmd: cmd, orders: orders, stdout: stdout,
		lines: bufio.NewReader(stdout), seen: make(map[identity]*Process),
	}
	if err := cmd.Start(); err != nil {
		s.closePipes()
		return nil, err
	}
	return s, nil
}

func (s *Session) closePipes() {
	s.orders.Close()
	s.stdout.Close()
}

// Hello waits until the client has talked to the server.
func (s *Session) Hello() (Hello, error) {
	line, err := s.line(helloGrace)
	if err != nil {
		return Hello{}, fmt.Errorf("client said nothing: %w", err)
	}
	var h Hello
	if err := json.Unmarshal([]byte(line), &h); err != nil {
		return Hello{}, fmt.Errorf("client said %q: %w", line, err)
	}
	return h, nil
}

func (s *Session) line(grace time.Duration) (string, error) {
	if err := s.stdout.SetReadDeadline(time.Now().Add(grace)); err != nil {
		return "", err
	}
	line, err := s.lines.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// Close lets the client close the session in its own polite way, and returns when
// the client has exited.
func (s *Session) Close() error {
	if _, err := s.orders.WriteString("close\n"); err != nil {
		return err
	}
	line, err := s.line(closeGrace)
	if err != nil {
		return fmt.Errorf("client did not close: %w", err)
	}
	if !strings.HasPrefix(line, "closed ") {
		return fmt.Errorf("client said %q", line)
	}
	return s.cmd.Wait()
}

// Kill sends the client SIGKILL, and returns when it is dead.
func (s *Session) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return s.WaitKilled()
}

// WaitKilled waits for the client to die of a signal.
func (s *Session) WaitKilled() error {
	var exit *exec.ExitError
	if err := s.cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		return fmt.Errorf("client was not killed: %v", s.cmd.ProcessState)
	}
	return nil
}

// endGrace is for the kernel to take a killed process apart.
const endGrace = 10 * time.Second

// End kills the client and everything that belongs to the session, whatever state
// it is in, and lets go of it.
func (s *Session) End() error {
	var err error
	if s.cmd.ProcessState == nil {
		err = errors.Join(s.Observe(), s.Kill())
	}
	for _, p := range s.seen {
		p.kill()
	}
	left, leftErr := s.Left(time.Now().Add(endGrace))
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("survived SIGKILL: %v", left))
	}
	for _, p := range s.seen {
		p.release()
	}
	clear(s.seen)
	s.closePipes()
	return errors.Join(err, leftErr)
}
