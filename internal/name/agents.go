// SPDX-License-Identifier: Apache-2.0

package name

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strings"
)

// Program is a program that starts MCP servers.
type Program struct {
	Name   string
	Client string // as mcpscope wrap calls it; "" is the same name
	Agent  bool   // it works in a terminal, and starts tools, too
	// Daemon: it starts one for all its conversations.
	Daemon bool
	// WithoutDaemon is its command line that starts none, "" if there is no such flag.
	WithoutDaemon string
}

// programs are the agents, and the clients whose programs have other names.
var programs = []Program{
	{Name: "amp", Agent: true},
	{Name: "auggie", Client: "augment", Agent: true},
	{Name: "claude", Client: "claude-code", Agent: true, Daemon: true},
	{Name: "cline", Agent: true, Daemon: true},
	{Name: "cn", Client: "continue", Agent: true},
	{Name: "code", Client: "vscode"},
	{Name: "codex", Agent: true, Daemon: true, WithoutDaemon: "codex --no-daemon"},
	{Name: "copilot", Agent: true},
	{Name: "crush", Agent: true},
	{Name: "cursor-agent", Client: "cursor", Agent: true},
	{Name: "droid", Client: "factory", Agent: true},
	{Name: "gemini", Agent: true},
	{Name: "gemini-cli", Client: "gemini"},
	{Name: "goose", Agent: true},
	{Name: "hermes", Agent: true},
	{Name: "hermes-agent", Client: "hermes"},
	{Name: "hermes-gateway", Client: "hermes"},
	{Name: "kilo", Agent: true},
	{Name: "kimi", Agent: true},
	{Name: "kiro-cli", Client: "kiro"},
	{Name: "opencode", Agent: true},
	{Name: "qodercli", Client: "qoder", Agent: true},
	{Name: "qwen", Agent: true},
	{Name: "qwen-code", Client: "qwen"},
}

// ProgramOf returns what is known of a program; nothing but its name for any other one.
func ProgramOf(name string) Program {
	i := slices.IndexFunc(programs, func(p Program) bool { return p.Name == name })
	if i < 0 {
		return Program{Name: name}
	}
	return programs[i]
}

// CommandLine is how a person should start the program below mcpscope: its daemon would have the servers.
func (p Program) CommandLine() string { return cmp.Or(p.WithoutDaemon, p.Name) }

// ClientPrograms are the programs that are not called as their client is, each with that.
func ClientPrograms() iter.Seq2[string, string] {
	return func(yield func(program, client string) bool) {
		for _, p := range programs {
			if p.Client != "" && !yield(p.Name, p.Client) {
				return
			}
		}
	}
}

// ClientOf returns the client that a program is, as `mcpscope wrap` calls it. A program without another name
// there is called as it is.
func ClientOf(program string) string {
	p := ProgramOf(strings.ToLower(path.Base(program)))
	return cmp.Or(p.Client, p.Name)
}
