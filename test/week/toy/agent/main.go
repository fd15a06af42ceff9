// SPDX-License-Identifier: Apache-2.0

// Command agent is an MCP client: `agent FILE` starts the servers of a JSON file, as Claude Code does those of
// ~/.claude.json, and prints the name of each that has answered. It goes on to call them until it is terminated or killed.
// On SIGHUP it reads the file again, and starts the servers that are there then.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// pause between calls to one server.
const pause = 100 * time.Millisecond

const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`

type server struct {
	Command string
	Args    []string
	Env     map[string]string
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	var inputs []io.Closer // they stay open: the end of its input ends a server
	for {
		started, err := startAll(path)
		if err != nil {
			return err
		}
		inputs = append(inputs, started...)
		if <-signals != unix.SIGHUP {
			break
		}
	}
	for _, input := range inputs {
		_ = input.Close() // open until now
	}
	return nil
}

// startAll starts the servers of a file in the order of their names.
func startAll(path string) (inputs []io.Closer, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct{ MCPServers map[string]server }
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(file.MCPServers)) {
		input, err := start(file.MCPServers[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		inputs = append(inputs, input)
		fmt.Println(name, "answers")
	}
	return inputs, nil
}

// start returns the input of a server that has answered.
func start(s server) (io.Closer, error) {
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = os.Environ()
	cmd.Stderr = os.Stderr
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	answers := bufio.NewReader(out)
	if _, err := fmt.Fprintln(in, initialize); err != nil {
		return nil, err
	}
	if _, err = answers.ReadString('\n'); err != nil {
		return nil, err
	}
	go call(in, answers)
	return in, nil
}

// call asks a server for its tools again and again, until it has exited.
func call(in io.Writer, answers *bufio.Reader) {
	for {
		time.Sleep(pause)
		if _, err := fmt.Fprintln(in, list); err != nil {
			return
		}
		if _, err := answers.ReadString('\n'); err != nil {
			return
		}
	}
}
