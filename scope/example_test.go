// SPDX-License-Identifier: Apache-2.0

//go:build linux

package scope_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mcpscope/mcpscope/scope"
)

// A server that copies its input stands for one that speaks MCP.
func ExampleCmd_Start() {
	cmd := scope.Command("cat")
	cmd.Flags = []string{"--name=echo", "--term-grace=2s"}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	in.Close()
	text, _ := io.ReadAll(out)
	fmt.Print(string(text))
	fmt.Println(cmd.Wait())
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"ping"}
	// <nil>
}

// Left-over processes are stopped before Run returns.
func ExampleCmd_Run() {
	cmd := scope.Command("sh", "-c", "setsid sleep 1000 & exit 3")
	cmd.Flags = []string{"--name=leaky"}
	err := cmd.Run()
	var exit *scope.ExitError
	if errors.As(err, &exit) {
		fmt.Println(exit.ExitCode(), exit.Cause)
	}
	// Output: 3 main-exited
}

func ExampleCmd_Output() {
	text, err := scope.Command("echo", "hello").Output()
	fmt.Println(string(text), err)
	// Output:
	// hello
	//  <nil>
}

// A library that starts an *exec.Cmd by itself can have the one of a Cmd.
func ExampleCommand() {
	text, err := scope.Command("echo", "hello").Cmd.Output()
	fmt.Println(string(text), err)
	// Output:
	// hello
	//  <nil>
}

// A context that is done stops the server.
func ExampleCommandContext() {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := scope.CommandContext(ctx, "cat")
	if _, err := cmd.StdinPipe(); err != nil { // which stays open
		fmt.Println(err)
	}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
	}
	cancel()
	fmt.Println(cmd.Wait() != nil)
	// Output: true
}
