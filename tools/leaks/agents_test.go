// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/agents"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/tmux"
)

// published says what people call an agent, and which package of npm has its version.
var published = map[string]struct{ title, name string }{
	"claude":   {"Claude Code", "@anthropic-ai/claude-code"},
	"codex":    {"Codex", "@openai/codex"},
	"gemini":   {"Gemini CLI", "@google/gemini-cli"},
	"qwen":     {"Qwen Code", "@qwen-code/qwen-code"},
	"opencode": {"opencode", "opencode-linux-x64"},
}

// BenchmarkAgents prints the table of agents, each with one server, as most people have them: Codex with its daemon.
func BenchmarkAgents(b *testing.B) {
	dir := installed(b)
	clients, err := filepath.Abs("../../.cache/clients")
	if err != nil {
		b.Fatal(err)
	}
	startModel(b, clients)
	// It does not exit at the end of its input.
	figma := server{name: "figma-console-mcp", program: "figma-console-mcp"}
	agentWays := ways[:2] // a package runner is no matter of the agent
	t := &table{
		what: "agent, with " + figma.title(dir), contained: "both, with `mcpscope run --` in front of the agent",
		ways: agentWays, starts: agentStarts,
	}
	for _, a := range agents.All {
		a.Args = nil // --no-daemon of Codex
		p := published[a.Name]
		r := row{name: p.title + " " + version(filepath.Join(clients, "agents"), p.name)}
		for _, w := range agentWays {
			r.bare = append(r.bare, agentCell(b, a, figma.command(b, dir, w, false), clients, w, false))
			r.contained.add(agentCell(b, a, figma.command(b, dir, w, false), clients, w, true))
		}
		t.rows = append(t.rows, r)
	}
	sdk := version(filepath.Join(clients, "gateways"), agentSDK)
	app := row{name: "an app on the Claude Agent SDK " + sdk + ", two servers"}
	for _, w := range agentWays {
		app.bare = append(app.bare, appCell(b, figma.command(b, dir, w, false), clients, w, false))
		app.contained.add(appCell(b, figma.command(b, dir, w, false), clients, w, true))
	}
	t.rows = append(t.rows, app)
	t.print()
	b.ReportMetric(0, "ns/op") // the duration says nothing
}

// agentCell measures an agent with a server that is started by a command.
func agentCell(b *testing.B, a agents.Agent, command []string, clients string, w way, contained bool) (c count) {
	name := fmt.Sprintf("%s/%s/contained=%v", a.Name, w.title, contained)
	b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
		c = measure(b, agentStarts, func() func() running { return startAgent(b, a, command, clients, w, contained) })
		b.ReportMetric(float64(c.left), "left")
		b.ReportMetric(float64(c.ran), "ran")
	})
	return c
}

// became writes the pid of the agent, and becomes it.
const became = `echo $$ >agent.pid; exec "$@"`

// startAgent starts an agent in a terminal. The returned function waits until it takes input and has started its
// server.
func startAgent(b *testing.B, a agents.Agent, command []string, clients string, w way, contained bool) func() running {
	b.Helper()
	home := b.TempDir()
	project := filepath.Join(home, "shop")
	if err := a.MakeHome(home, script(b, command)); err != nil {
		b.Fatal(err)
	}
	line := []string{"sh", "-c", became, "sh", filepath.Join(clients, "agents", "node_modules", a.Program)}
	if contained {
		line = append([]string{mcpscope, "run", "--"}, line...)
	}
	cmd := exec.Command("env", append([]string{"-C", project}, line...)...)
	cmd.Env = a.Environment(home, clients)
	group := bed.Group(b, "start")
	screen := tmux.Start(b, 120, 40, cmd, func() error { return escape.StartIn(group, cmd) })
	b.Cleanup(screen.Close)
	return func() running {
		awaitText(b, screen, a.Ready)
		agent := awaitPID(b, filepath.Join(project, "agent.pid"))
		awaitPID(b, filepath.Join(project, "server.pid"))
		end := screen.Close
		if !w.terminal {
			end = func() { _ = unix.Kill(agent, unix.SIGKILL) } // in a pid namespace of the test alone
		}
		pane := screen.PID()
		return running{end: end, beside: []int{agent, pane, parent(b, pane)}}
	}
}

// script is one that writes its pid to the file server.pid, and becomes a server.
func script(b *testing.B, command []string) string {
	var quoted []string
	for _, word := range command {
		quoted = append(quoted, "'"+word+"'")
	}
	// npx finds packages in the directory of the servers
	return fmt.Sprintf("#!/bin/sh\necho $$ >server.pid\ncd '%s'\nexport npm_config_offline=true\nexec %s\n",
		installed(b), strings.Join(quoted, " "))
}

const agentSDK = "@anthropic-ai/claude-agent-sdk"

// appCell measures an app that has its agent by an SDK, while it waits for its model. The SDK starts a runtime.
func appCell(b *testing.B, command []string, clients string, w way, contained bool) (c count) {
	name := fmt.Sprintf("app/%s/contained=%v", w.title, contained)
	b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
		c = measure(b, agentStarts, func() func() running {
			home := b.TempDir()
			server := filepath.Join(home, "server")
			if err := escape.WriteProgram(server, script(b, command)); err != nil {
				b.Fatal(err)
			}
			line := []string{"node", filepath.Join(clients, "gateways", "agentsdk.mjs"), server}
			if contained {
				line = append([]string{mcpscope, "run", "--"}, line...)
			}
			cmd := exec.Command(line[0], line[1:]...)
			cmd.Dir = home
			cmd.Env = append(os.Environ(), "HOME="+home, "IS_SANDBOX=1", "ANTHROPIC_API_KEY=x",
				"ANTHROPIC_BASE_URL=http://127.0.0.1:9/v1") // where nothing listens
			return startClient(b, cmd, w, "one connected, two connected")
		})
		b.ReportMetric(float64(c.left), "left")
		b.ReportMetric(float64(c.ran), "ran")
	})
	return c
}

// awaitText waits for a text on a screen. A busy machine takes longer than tests allow.
func awaitText(b *testing.B, screen *tmux.Screen, text string) {
	b.Helper()
	lines := ""
	for began := time.Now(); time.Since(began) < startsWithin; time.Sleep(200 * time.Millisecond) {
		lines = strings.Join(screen.Lines(), "\n")
		if strings.Contains(lines, text) {
			return
		}
	}
	b.Fatalf("no %q after %v, but\n%s", text, startsWithin, lines)
}

// awaitPID waits for a file with a pid.
func awaitPID(b *testing.B, file string) int {
	b.Helper()
	for began := time.Now(); time.Since(began) < startsWithin; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(file) // there is none yet
		if pid, err := strconv.Atoi(strings.TrimSuffix(string(text), "\n")); err == nil {
			return pid
		}
	}
	b.Fatalf("no pid in %s after %v", file, startsWithin)
	return 0
}

// parent is the one of tmux, which is the terminal.
func parent(b *testing.B, pid int) (parent int) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	var state string
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
		b.Fatal(err)
	}
	return parent
}

// startModel starts the stand-in for the models.
func startModel(b *testing.B, clients string) {
	b.Helper()
	up := filepath.Join(b.TempDir(), "up")
	cmd := exec.Command(filepath.Join(clients, "bin", "modelapi"), agents.ModelAddress, up)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs
		_ = cmd.Wait()         // killed
	})
	for began := time.Now(); time.Since(began) < startsWithin; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(up); err == nil {
			return
		}
	}
	b.Fatal("the model does not listen")
}
