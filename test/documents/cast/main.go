// SPDX-License-Identifier: Apache-2.0

// Command cast plays those whom the documents speak of, by the name that it is called: claude, a
// client with the servers of its user's ~/.claude.json, and my-agent, another; my-gateway, a gateway with two of its own;
// npx and uvx, a package runner with a server that does not end when its input does. A server with "hungry" in its name
// takes memory; one of a service writes a line to its log.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
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
	case "claude":
		return claude()
	case "my-gateway":
		if err := client([][]string{{"uvx", "mcp-server-time"}, {"npx", "-y", "some-mcp-server"}}); err != nil {
			return err
		}
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil { // systemd-notify(1) fails where the answer takes 5 s
			return err
		}
		time.Sleep(time.Hour)
	case "my-agent":
		if err := servers(); err != nil {
			return err
		}
		time.Sleep(time.Hour)
	case "npx", "uvx":
		return runner()
	case "mcp-server":
		return server()
	}
	return fmt.Errorf("nobody plays %s", name)
}

const (
	hungry = "CAST_HUNGRY"
	hunger = 96 << 20 // what such a server takes
)

// server tells its package runner that it has what it needs.
func server() error {
	var taken []byte
	if os.Getenv(hungry) != "" {
		taken = bytes.Repeat([]byte{1}, hunger)
	}
	fmt.Println()
	time.Sleep(time.Hour)
	runtime.KeepAlive(taken)
	return nil
}

// claude lives until its own input ends.
func claude() error {
	if err := servers(); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// servers starts those of the file in their order.
func servers() error {
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
	return client(lines)
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cast","version":"1"}}}` + "\n"

// client starts servers and speaks to them.
func client(lines [][]string) error {
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
	}
	return nil
}

const answer = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"cast","version":"1"}}}` + "\n"

// runner starts a server in a session of its own, answers for it, and stays after the end of its input.
func runner() error {
	name := os.Args[len(os.Args)-1]
	cmd := exec.Command("setsid", "mcp-server")
	if strings.Contains(name, "hungry") {
		cmd.Env = append(os.Environ(), hungry+"=1")
	}
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
	}
	return cmd.Wait()
}
