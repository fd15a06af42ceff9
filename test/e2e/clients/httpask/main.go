// SPDX-License-Identifier: Apache-2.0

// Httpask asks a gateway that serves HTTP for the tools of a server behind it, on the official Go SDK:
//
//	httpask [--sse] [--sessions N] URL TOOL ARGUMENTS
//
// It prints a line for each session: the names of the tools, and the result of TOOL.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	sse := flag.Bool("sse", false, "")
	sessions := flag.Int("sessions", 1, "")
	flag.Parse()
	for range *sessions {
		if err := ask(*sse, flag.Arg(0), flag.Arg(1), flag.Arg(2)); err != nil {
			fmt.Fprintln(os.Stderr, "httpask:", err)
			os.Exit(1)
		}
	}
}

func ask(sse bool, url, tool, arguments string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: url}
	if sse {
		transport = &mcp.SSEClientTransport{Endpoint: url}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "httpask", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	var args map[string]any
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		return err
	}
	// A gateway of several servers puts their names before the tools'.
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, tool) }); i >= 0 {
		tool = names[i]
	}
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err
	}
	var said strings.Builder
	for _, part := range result.Content {
		if text, ok := part.(*mcp.TextContent); ok {
			said.WriteString(text.Text)
		}
	}
	fmt.Println(strings.Join(names, " "), "|", said.String())
	return nil
}
