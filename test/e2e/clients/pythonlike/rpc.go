// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// An rpc is as much of JSON-RPC over stdio as a client needs that has one request
// under way at a time and no capabilities of its own: whatever the server asks is
// answered with "method not found".
type rpc struct {
	stdin   io.WriteCloser
	answers chan message // closed at the end of the server's stdout
	lastID  int
}

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      any             `json:"id,omitempty"` // absent in a notification
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

const methodNotFound = -32601

// start starts cmd, whose stdin and stdout the returned rpc holds.
func start(cmd *exec.Cmd) (*rpc, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of our own: the one of StdoutPipe is closed by Wait, which runs while
	// answers may still be unread.
	stdout, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd.Stdout = theirs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &rpc{stdin: stdin, answers: make(chan message)}
	go c.read(stdout)
	return c, nil
}

// read goes on until the end of stdout: a client that stopped reading would block
// its server.
func (c *rpc) read(stdout io.Reader) {
	defer close(c.answers)
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue // as the SDK does: a line that is no message is skipped
		}
		c.dispatch(m)
	}
}

func (c *rpc) dispatch(m message) {
	switch {
	case m.Method == "":
		c.answers <- m
	case m.ID != nil:
		// A failure here shows as the end of stdout.
		_ = c.send(message{ID: m.ID, Error: &rpcError{methodNotFound, "method not found"}})
	}
}

func (c *rpc) send(m message) error {
	m.JSONRPC = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = c.stdin.Write(append(line, '\n')) // one write: read answers from a second goroutine
	return err
}

func (c *rpc) notify(method string) error { return c.send(message{Method: method}) }

// request sends a request and unpacks its result into result, unless that is nil.
func (c *rpc) request(ctx context.Context, method string, params, result any) error {
	c.lastID++
	if err := c.send(message{ID: c.lastID, Method: method, Params: params}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer, ok := <-c.answers:
		if !ok {
			return errors.New("the server closed its stdout")
		}
		if answer.Error != nil {
			return answer.Error
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(answer.Result, result)
	}
}
