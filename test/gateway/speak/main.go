// SPDX-License-Identifier: Apache-2.0

// Command speak is a client that starts servers and speaks MCP to them: early or late, one after the
// other or many at once, over pipes (as clients in Go and Python do) or sockets (as those on Node do).
//
//	speak [--count N] [--burst N] [--delay D] [--sockets] [--stay] -- COMMAND [ARG…]
//
// It prints a line for each server with the microseconds from its start to the answer to initialize.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

var (
	count   = flag.Int("count", 1, "")
	burst   = flag.Int("burst", 1, "")
	delay   = flag.Duration("delay", 0, "")
	sockets = flag.Bool("sockets", false, "")
	stay    = flag.Bool("stay", false, "close nothing before the end of our stdin")
)

type server struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	started time.Time
}

func main() {
	flag.Parse()
	for done := 0; done < *count; done += *burst {
		var all []*server
		for range *burst {
			s, err := start(flag.Args())
			if err != nil {
				fail(err)
			}
			all = append(all, s)
		}
		time.Sleep(*delay) // what is tried is a client that is late
		for _, s := range all {
			if err := s.speak(); err != nil {
				fail(err)
			}
		}
		if *stay {
			continue
		}
		for _, s := range all {
			s.in.Close()
			_ = s.cmd.Wait() // how it ends is not what is tried
		}
	}
	if *stay {
		fmt.Println("all")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

func fail(err error) {
	fmt.Println("failed", err)
	os.Exit(1)
}

func start(argv []string) (*server, error) {
	s := &server{cmd: exec.Command(argv[0], argv[1:]...)}
	s.cmd.Stderr = os.Stderr
	in, theirIn, err := pair()
	if err != nil {
		return nil, err
	}
	theirOut, out, err := pair()
	if err != nil {
		return nil, err
	}
	if !*sockets { // the first end of a pipe reads
		in, theirIn = theirIn, in
		out, theirOut = theirOut, out
	}
	s.cmd.Stdin, s.cmd.Stdout, s.in, s.out, s.started = theirIn, theirOut, in, bufio.NewReader(out), time.Now()
	err = s.cmd.Start()
	theirIn.Close()
	theirOut.Close()
	return s, err
}

func pair() (a, b *os.File, err error) {
	if !*sockets {
		return os.Pipe()
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

func (s *server) speak() error {
	if err := s.request(0, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"speak","version":"1"}}`); err != nil {
		return err
	}
	fmt.Println("server", s.cmd.Process.Pid, time.Since(s.started).Microseconds())
	if _, err := io.WriteString(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return err
	}
	if err := s.request(1, "tools/list", "{}"); err != nil {
		return err
	}
	return s.request(2, "tools/call", `{"name":"echo","arguments":{"message":"hello"}}`)
}

func (s *server) request(id int, method, params string) error {
	if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		return err
	}
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if strings.Contains(line, fmt.Sprintf(`"id":%d`, id)) {
			return nil
		}
	}
}
