// SPDX-License-Identifier: Apache-2.0

// Command cast is the programs of the documents, by the name that it is called: claude, a client with the
// servers of its user's ~/.claude.json; my-gateway, a gateway with two servers; npx
// and uvx, package runners with a server that ignores the end of its input. One of a service logs.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

func main() {
	if err := play(filepath.Base(os.Args[0])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(name string) error {
	switch name {
	case "claude": // until its input ends
		if err := startConfigured(); err != nil {
			return err
		}
		fmt.Println("ready")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "my-gateway":
		if err := start([][]string{{"uvx", "mcp-server-time"}, {"npx", "-y", "some-mcp-server"}}); err != nil {
			return err
		}
		// systemd-notify(1) fails where the answer takes 5 s
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
			return err
		}
		return awaitSIGTERM()
	case "npx", "uvx":
		return runner()
	case "mcp-server":
		fmt.Println() // to its package runner
		return awaitSIGTERM()
	}
	return fmt.Errorf("nothing is called %s", name)
}

func awaitSIGTERM() error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGTERM)
	<-c
	return nil
}

// startConfigured starts the servers of the file in their order.
func startConfigured() error {
	text, err := os.ReadFile(os.Getenv("HOME") + "/.claude.json")
	if err != nil {
		return err
	}
	type server struct {
		Command string
		Args    []string
	}
	var file struct {
		MCPServers struct{ Time, Git, Browser server }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	var lines [][]string
	for _, s := range []server{file.MCPServers.Time, file.MCPServers.Git, file.MCPServers.Browser} {
		if s.Command != "" {
			lines = append(lines, append([]string{s.Command}, s.Args...))
		}
	}
	return start(lines)
}

const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"cast","version":"1"}}}` + "\n"
	list   = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	answer = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"serverInfo":{"name":"cast","version":"1"}}}` + "\n"
)

// start starts servers, and returns when they have answered.
func start(lines [][]string) error {
	for _, line := range lines {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if _, err := io.WriteString(in, initialize); err != nil {
			return err
		}
		if _, err := io.ReadFull(out, make([]byte, len(answer))); err != nil {
			return err
		}
		go use(in)
	}
	return nil
}

// use asks a server again and again, as a client with a session does, until the server has ended.
func use(in io.Writer) {
	for {
		if _, err := io.WriteString(in, list); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// runner starts a server in a session of its own, answers for it, and stays after the end of its input.
func runner() error {
	name := os.Args[len(os.Args)-1]
	cmd := exec.Command("setsid", "mcp-server")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return err
	}
	if os.Getenv("JOURNAL_STREAM") != "" { // a service's
		fmt.Fprintln(os.Stderr, name+" serves")
	}
	signal.Ignore(unix.SIGPIPE) // a client may be killed as soon as its servers run
	if _, err := io.ReadFull(os.Stdin, make([]byte, len(initialize))); err == nil {
		_, _ = io.WriteString(os.Stdout, answer)
		go func() { _, _ = io.Copy(io.Discard, os.Stdin) }()
	}
	return cmd.Wait()
}
