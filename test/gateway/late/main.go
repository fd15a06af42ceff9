// SPDX-License-Identifier: Apache-2.0

// Command late is a client in Go, or a server: a server that has waited for its input long before its client
// speaks. The programs for Node and Python beside it do the same.
//
//	late server FILE                               a server that makes FILE when it is about to read
//	late client pipes|sockets N MS DIR COMMAND...  a client of N servers, each of which gets a file in DIR
//
// The client waits until each server waits for its input. Then it has a session with all of them, with pauses
// of MS milliseconds, prints "done", and closes them when its own stdin ends.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if os.Args[1] == "server" {
		serve(os.Args[2])
		return
	}
	n, _ := strconv.Atoi(os.Args[3])  // a test's own
	ms, _ := strconv.Atoi(os.Args[4]) // as above
	servers := make([]*server, n)
	for i := range servers {
		s, err := start(os.Args[2] == "sockets", filepath.Join(os.Args[5], fmt.Sprint(i)), os.Args[6:])
		if err != nil {
			fmt.Println("failed", err)
			return
		}
		servers[i] = s
	}
	for _, s := range servers {
		s.awaitReady()
	}
	var sessions sync.WaitGroup
	for _, s := range servers {
		sessions.Go(func() { s.session(time.Duration(ms) * time.Millisecond) })
	}
	sessions.Wait()
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends it
	for _, s := range servers {
		_ = s.in.Close() // its end
		_ = s.cmd.Wait() // as above
	}
}

type message struct {
	Version string `json:"jsonrpc"`
	ID      *int   `json:"id,omitempty"`
	Method  string `json:"method,omitempty"`
	Params  any    `json:"params,omitempty"`
	Result  any    `json:"result,omitempty"`
}

type object = map[string]any

func serve(ready string) {
	in := bufio.NewReader(os.Stdin)
	_ = os.WriteFile(ready, nil, 0o600) // the client waits for it
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue
		}
		switch m.Method {
		case "initialize":
			m.Result = object{
				"protocolVersion": "2025-06-18", "capabilities": object{"tools": object{}},
				"serverInfo": object{"name": "late", "version": "1"},
			}
		case "tools/list":
			tool := object{"name": "echo", "description": "Echo", "inputSchema": object{"type": "object"}}
			m.Result = object{"tools": []object{tool}}
		default:
			m.Result = object{"content": []object{{"type": "text", "text": "echo"}}}
		}
		m.Method = ""
		m.Params = nil
		text, _ := json.Marshal(m) // it has what JSON has
		_, _ = os.Stdout.Write(append(text, '\n'))
	}
}

type server struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *bufio.Reader
	ready  string
	lastID int
}

func start(sockets bool, ready string, argv []string) (*server, error) {
	s := &server{cmd: exec.Command(argv[0], append(argv[1:], ready)...), ready: ready}
	s.cmd.Stderr = os.Stderr
	in, ours, err := ends(sockets)
	if err != nil {
		return nil, err
	}
	theirs, out, err := ends(sockets)
	if err != nil {
		return nil, err
	}
	if !sockets {
		theirs, out = out, theirs
	}
	s.cmd.Stdin = in
	s.cmd.Stdout = theirs
	s.in = ours
	s.out = bufio.NewReader(out)
	err = s.cmd.Start()
	_ = in.Close()     // the server has it
	_ = theirs.Close() // as above
	return s, err
}

// ends makes a socket pair with the server's end first, or a pipe with the reading end first.
func ends(sockets bool) (first, second *os.File, err error) {
	if !sockets {
		return os.Pipe()
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err = unix.SetNonblock(fds[1], true); err != nil { // the server's blocks
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

// awaitReady returns when each thread of the server has slept at several looks.
func (s *server) awaitReady() {
	for asleep := 0; asleep < 5; {
		time.Sleep(10 * time.Millisecond)
		asleep++
		if _, err := os.Stat(s.ready); err != nil {
			asleep = 0
		}
		threads := fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid)
		stats, _ := filepath.Glob(threads) // the pattern is valid
		for _, file := range stats {
			text, _ := os.ReadFile(file) // none, if the thread has ended
			if i := bytes.LastIndexByte(text, ')'); i < 0 || text[i+2] != 'S' {
				asleep = 0
			}
		}
	}
}

func (s *server) session(pause time.Duration) {
	wait := func() { time.Sleep(pause/2 + rand.N(pause)) }
	wait()
	s.ask("initialize", object{
		"protocolVersion": "2025-06-18", "capabilities": object{},
		"clientInfo": object{"name": "late", "version": "1"},
	})
	s.send(message{Version: "2.0", Method: "notifications/initialized"})
	s.ask("tools/list", nil)
	for range 10 {
		wait()
		s.ask("tools/call", object{"name": "echo", "arguments": object{}})
	}
	time.Sleep(pause)
}

func (s *server) ask(method string, params any) {
	s.lastID++
	s.send(message{Version: "2.0", ID: &s.lastID, Method: method, Params: params})
	if _, err := s.out.ReadBytes('\n'); err != nil {
		fmt.Println("failed", method, err)
	}
}

func (s *server) send(m message) {
	text, _ := json.Marshal(m) // it has what JSON has
	text = append(text, '\n')
	_, _ = s.in.Write(text) // the answer shows an error
}
