// SPDX-License-Identifier: Apache-2.0

// Package contract is the common command line of all test clients. It lets one
// test drive every SDK:
//
//	CLIENT [--kill-after-list] -- COMMAND [ARG...]
//
// The client starts COMMAND as its server, lists the tools, calls one of them and
// prints one JSON line (Hello). Then it reads lines from its own stdin. "call" makes it
// list, call and print once more. "close" makes it close the session as its SDK does,
// print "closed" with the milliseconds that took, and exit 0. At the end of stdin it exits
// and closes nothing, like a client that forgot its servers. With --kill-after-list it
// prints the number of tools and sends itself SIGKILL before any call: a crash in the
// middle of a session.
//
// Package contract knows no SDK; the client in the node directory keeps the same
// contract by hand.
package contract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// A Hello is the line that reports the server's answers.
type Hello struct {
	Tools int    `json:"tools"`
	Call  string `json:"call,omitempty"` // "ok", or "error" when the tool said so
	Text  string `json:"text,omitempty"` // what the tool returned
}

// A Session is a client SDK's session with a running server.
type Session interface {
	// Tools returns the names of the server's tools.
	Tools(ctx context.Context) ([]string, error)
	// Call calls a tool and returns the text of its result.
	Call(ctx context.Context, tool string, args map[string]any) (text string, isError bool, err error)
	// Close shuts the server down as the SDK does it.
	Close() error
}

// A Connect starts command and initialises a session with it.
type Connect func(ctx context.Context, command []string) (Session, error)

// calls are the tools that need nothing but a server that works, in the order of
// preference.
var calls = []struct {
	tool string
	args map[string]any
}{
	{"echo", map[string]any{"message": "hello"}},
	{"list_directory", map[string]any{"path": "."}},
	{"read_graph", map[string]any{}},
}

// Main is the whole program of a client.
func Main(name string, connect Connect) {
	if err := run(connect, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(connect Connect, args []string) error {
	killAfterList, command, err := parse(args)
	if err != nil {
		return err
	}
	ctx := context.Background() // the test knows how long it waits for a line
	session, err := connect(ctx, command)
	if err != nil {
		return fmt.Errorf("connect to %q: %w", command, err)
	}
	if err := talk(ctx, session, killAfterList); err != nil {
		return err
	}
	return waitForClose(ctx, session)
}

func parse(args []string) (killAfterList bool, command []string, err error) {
	if len(args) > 0 && args[0] == "--kill-after-list" {
		killAfterList = true
		args = args[1:]
	}
	if len(args) < 2 || args[0] != "--" {
		return false, nil, errors.New("usage: [--kill-after-list] -- COMMAND [ARG...]")
	}
	return killAfterList, args[1:], nil
}

// talk is the part of a session that every client does alike: list, call, say so.
func talk(ctx context.Context, s Session, killAfterList bool) error {
	tools, err := s.Tools(ctx)
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	if killAfterList {
		if err := say(Hello{Tools: len(tools)}); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	text, isError, err := call(ctx, s, tools)
	if err != nil {
		return err
	}
	hello := Hello{Tools: len(tools), Call: "ok", Text: text}
	if isError {
		hello.Call = "error"
	}
	return say(hello)
}

func call(ctx context.Context, s Session, tools []string) (text string, isError bool, err error) {
	for _, c := range calls {
		if !slices.Contains(tools, c.tool) {
			continue
		}
		if text, isError, err = s.Call(ctx, c.tool, c.args); err != nil {
			err = fmt.Errorf("call %s: %w", c.tool, err)
		}
		return text, isError, err
	}
	return "", false, fmt.Errorf("none of the tools %q is one that this client can call", tools)
}

func say(hello Hello) error {
	line, err := json.Marshal(hello)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\n", line)
	return err
}

func waitForClose(ctx context.Context, s Session) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "call" {
			if err := talk(ctx, s, false); err != nil {
				return err
			}
		}
		if lines.Text() != "close" {
			continue
		}
		start := time.Now()
		// How the server ended is its own business: an SDK reports a server that
		// it had to terminate as an error, and that is an outcome under test.
		if err := s.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "close: %v\n", err)
		}
		fmt.Printf("closed %d\n", time.Since(start).Milliseconds())
		return nil
	}
	return lines.Err()
}
