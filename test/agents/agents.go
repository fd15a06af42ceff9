// SPDX-License-Identifier: Apache-2.0

// Package agents has published agents as people start them in a terminal. They speak to a stand-in for their models
// (test/e2e/clients/modelapi), and have one server.
package agents

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpscope/mcpscope/test/escape"
)

// An Agent is started in a terminal.
type Agent struct {
	Name    string
	Program string // below the agents' node_modules
	Args    []string
	Ready   string // on the screen, when it takes input
	Quit    string // what ends it
	// NoShell: its shell mode does not take each Enter. Its model starts programs instead.
	NoShell bool

	// In these, @API is the address of a model on loopback, @SERVER the command of a server, and @HOME the home.
	files map[string]string // below the home
	env   []string
}

// All are five agents that many people have.
var All = []Agent{
	{
		Name: "claude", Program: "@anthropic-ai/claude-code-linux-x64/claude", Ready: "/effort", Quit: "/exit",
		env: []string{
			"ANTHROPIC_BASE_URL=@API", "ANTHROPIC_API_KEY=sk-ant-x-local-key-for-tests", "IS_SANDBOX=1",
			"ENABLE_TOOL_SEARCH=false",
		},
		files: map[string]string{".claude/settings.json": `{"permissions": {"allow": ["mcp__notes"]}}`,
			".claude.json": `{"hasCompletedOnboarding": true, "theme": "dark",
			"customApiKeyResponses": {"approved": ["-local-key-for-tests"], "rejected": []},
			"projects": {"@HOME/shop": {"hasTrustDialogAccepted": true}, "@HOME/blog": {"hasTrustDialogAccepted": true}},
			"mcpServers": {"notes": {"command": "@SERVER", "args": []}}}`},
	},
	{
		Name: "codex", Program: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
		Args: []string{"--no-daemon"}, Ready: "pong default", Quit: "/quit",
		files: map[string]string{".codex/config.toml": "model = \"pong\"\nmodel_provider = \"local\"\n" +
			"[model_providers.local]\nname = \"local\"\nbase_url = \"@API/v1\"\nwire_api = \"responses\"\n" +
			"[projects.\"@HOME/shop\"]\ntrust_level = \"trusted\"\n[projects.\"@HOME/blog\"]\ntrust_level = \"trusted\"\n" +
			"[mcp_servers.notes]\ncommand = \"@SERVER\"\n"},
	},
	{
		Name: "gemini", Program: "@google/gemini-cli/bundle/gemini.js", Ready: "Type your message", Quit: "/quit",
		NoShell: true,
		env:     []string{"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=@API"},
		files: map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"},
			"folderTrust": {"enabled": false}}, "general": {"disableAutoUpdate": true}, "model": {"name": "gemini-2.5-flash"},
			"mcpServers": {"notes": {"command": "@SERVER", "args": [], "trust": true}}}`,
			".gemini/policies/shell.toml": "[[rule]]\ntoolName = \"run_shell_command\"\n" +
				"decision = \"allow\"\npriority = 100\nallowRedirection = true\n"},
	},
	{
		Name: "qwen", Program: "@qwen-code/qwen-code/cli-entry.js", Ready: "Type your message", Quit: "/quit",
		env: []string{"OPENAI_API_KEY=x", "OPENAI_BASE_URL=@API/v1", "OPENAI_MODEL=pong"},
		files: map[string]string{".qwen/settings.json": `{"security": {"auth": {"selectedType": "openai"}},
			"mcpServers": {"notes": {"command": "@SERVER", "args": [], "trust": true}}}`},
	},
	{
		Name: "opencode", Program: "opencode-linux-x64/bin/opencode", Ready: "Ask anything", Quit: "/exit",
		files: map[string]string{".config/opencode/opencode.json": `{"model": "local/pong", "autoupdate": false,
			"provider": {"local": {"npm": "@ai-sdk/openai-compatible", "name": "local",
				"options": {"baseURL": "@API/v1", "apiKey": "x"}, "models": {"pong": {"name": "pong"}}}},
			"mcp": {"notes": {"type": "local", "command": ["@SERVER"], "enabled": true}}}`},
	},
}

// ModelAddress is where the model listens.
const ModelAddress = "127.0.0.1:8080"

// Started is a shell script that starts a model on loopback, by the program of the variable MODEL, writes the agent's
// pid to the file agent.pid, and becomes the agent. It needs a network of its own.
const Started = `ip link set lo up
rm -f up
mkfifo up
setsid -f "$MODEL" ` + ModelAddress + ` up </dev/null >/dev/null 2>&1
read -r up <up
echo $$ >agent.pid
exec "$@"
`

// MakeHome makes the agent's home with the projects shop and blog. The agent has one server, the shell script.
func (a Agent) MakeHome(home, script string) error {
	server := filepath.Join(home, "notes")
	fill := strings.NewReplacer("@API", "http://"+ModelAddress, "@SERVER", server, "@HOME", home)
	err := escape.WriteProgram(server, script)
	for path, text := range a.files {
		path = filepath.Join(home, path)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(fill.Replace(text)), 0o600))
	}
	for _, project := range []string{"shop", "blog"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(home, project), 0o700))
	}
	return err
}

// Environment is that of the agent, with clients as the directory of the test clients.
func (a Agent) Environment(home, clients string) []string {
	env := []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8",
		"MODEL=" + filepath.Join(clients, "bin", "modelapi"),
	}
	for _, variable := range a.env {
		env = append(env, strings.ReplaceAll(variable, "@API", "http://"+ModelAddress))
	}
	return env
}
