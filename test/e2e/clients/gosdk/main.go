// SPDX-License-Identifier: Apache-2.0

// Gosdk is the test client on the official Go SDK.
package main

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpscope/mcpscope/test/e2e/clients/contract"
)

func main() { contract.Main("gosdk", connect) }

func connect(ctx context.Context, command []string) (contract.Session, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	// No options, as in most programs: the default client announces roots and waits 5 s
	// in each step of its shutdown.
	client := mcp.NewClient(&mcp.Implementation{Name: "gosdk", Version: "1"}, nil)
	s, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return nil, err
	}
	return session{s}, nil
}

type session struct{ *mcp.ClientSession }

func (s session) Tools(ctx context.Context) ([]string, error) {
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (s session) Call(ctx context.Context, tool string, args map[string]any) (string, bool, error) {
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", false, err
	}
	var text strings.Builder
	for _, part := range result.Content {
		if t, ok := part.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	return text.String(), result.IsError, nil
}
