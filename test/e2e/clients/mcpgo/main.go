// SPDX-License-Identifier: Apache-2.0

// Mcpgo is the test client on mark3labs/mcp-go.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcpscope/mcpscope/test/e2e/clients/contract"
)

func main() { contract.Main("mcpgo", connect) }

func connect(ctx context.Context, command []string) (contract.Session, error) {
	c, err := client.NewStdioMCPClientWithOptions(command[0], nil, command[1:],
		transport.WithCommandStderrWriter(os.Stderr))
	if err != nil {
		return nil, err
	}
	request := mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: mcp.LATEST_PROTOCOL_VERSION,
		ClientInfo:      mcp.Implementation{Name: "mcpgo", Version: "1"},
	}}
	if _, err := c.Initialize(ctx, request); err != nil {
		return nil, err
	}
	return session{c}, nil
}

type session struct{ *client.Client }

func (s session) Tools(ctx context.Context) ([]string, error) {
	list, err := s.ListTools(ctx, mcp.ListToolsRequest{})
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
	request := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}}
	result, err := s.CallTool(ctx, request)
	if err != nil {
		return "", false, err
	}
	var text strings.Builder
	for _, part := range result.Content {
		if t, ok := part.(mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	return text.String(), result.IsError, nil
}
