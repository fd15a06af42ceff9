// SPDX-License-Identifier: Apache-2.0

package containment

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/name"
)

// An interpreter may run an agent. Other programs of that interpreter are no agents.
func TestAgentName(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, ""},
		{[]string{"/usr/bin/claude", "--resume"}, "claude"},
		{[]string{"node", "/usr/lib/node_modules/@openai/codex/bin/codex.js"}, "codex"},
		{[]string{"/usr/bin/node", "server.js"}, ""},
		{[]string{"node"}, ""},
		{[]string{"bash"}, ""},
		{[]string{"claudette"}, ""},
	} {
		if got := agentName(c.argv); got != c.want {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
}

// Each agent's client is one whose configurations are known.
func TestClientOf(t *testing.T) {
	for _, agent := range strings.Fields(`amp auggie claude cline cn codex copilot crush cursor-agent droid gemini
		goose hermes kilo kimi opencode qodercli qwen`) {
		client := name.ClientOf(agent)
		isIt := func(c known.Client) bool { return c.ID == client }
		if !name.ProgramOf(agent).Agent || !slices.ContainsFunc(known.All(), isIt) {
			t.Errorf("%s: %q is no client", agent, client)
		}
	}
}

// A process whose parent is an agent is a part of that agent.
func TestWithoutParts(t *testing.T) {
	agent := Agent{PID: os.Getppid()}
	part := Agent{PID: os.Getpid()}
	ended := Agent{PID: 1 << 30}
	for _, c := range []struct{ agents, want []Agent }{
		{nil, nil},
		{[]Agent{part, ended}, []Agent{part, ended}},
		{[]Agent{part, agent, ended}, []Agent{agent, ended}},
	} {
		if got := withoutParts(c.agents); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", c.agents, got, c.want)
		}
	}
}

// A client is inside if all its processes are: one beside them starts the servers of the same configuration.
func TestInside(t *testing.T) {
	inside := Agent{PID: 7, Name: "claude", Client: "claude-code", Inside: true}
	second := Agent{PID: 8, Name: "claude", Client: "claude-code", Inside: true}
	outside := Agent{PID: 9, Name: "claude", Client: "claude-code"}
	codex := Agent{PID: 10, Name: "codex", Client: "codex", Inside: true}
	hermes := gateway.Running{PID: os.Getpid(), Name: "hermes"}
	daemon := gateway.Running{PID: os.Getpid(), Name: "hermes-gateway"}
	openclaw := gateway.Running{PID: os.Getpid(), Name: "openclaw"}
	ended := gateway.Running{PID: 1 << 30, Name: "droid"}
	self := "[" + strconv.Itoa(os.Getpid()) + "]"
	for _, c := range []struct {
		agents   []Agent
		gateways []gateway.Running
		want     map[string]string
	}{
		{nil, nil, map[string]string{}},
		{[]Agent{inside, second, codex}, nil, map[string]string{"claude-code": "claude[7]", "codex": "codex[10]"}},
		{[]Agent{inside, outside, codex}, nil, map[string]string{"codex": "codex[10]"}},
		{[]Agent{outside}, nil, map[string]string{}},
		{nil, []gateway.Running{daemon}, map[string]string{"hermes": "hermes-gateway" + self}},
		{nil, []gateway.Running{hermes, openclaw, ended}, map[string]string{"hermes": "hermes" + self, "openclaw": "openclaw" + self}},
	} {
		if got := insideOf(c.agents, c.gateways); !maps.Equal(got, c.want) {
			t.Errorf("%+v, %+v: %v, want %v", c.agents, c.gateways, got, c.want)
		}
	}
}
