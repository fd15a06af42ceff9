// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaks

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A server is a published one, as people start it. It needs no account for its start.
type server struct {
	name    string // of the package of npm, or the path of the module of Go
	program string // in node_modules/.bin, or with a slash below the directory of the servers
	args    []string
	env     []string
	calls   string // that the client makes: those of client.mjs
	working string // what the calls do, for the table
}

const (
	chromium = "/usr/bin/chromium"
	remote   = "127.0.0.1:3001" // a server of HTTP
)

var servers = []server{
	{name: "@modelcontextprotocol/server-everything", program: "mcp-server-everything"},
	{
		name: "@modelcontextprotocol/server-everything", program: "mcp-server-everything",
		working: "in a call of 60 s",
		calls:   `[["trigger-long-running-operation", {"duration": 60, "steps": 6}, "goes on"]]`,
	},
	{
		name: "@modelcontextprotocol/server-filesystem", program: "mcp-server-filesystem",
		args: []string{"/tmp"},
	},
	{name: "@modelcontextprotocol/server-memory", program: "mcp-server-memory"},
	{name: "@modelcontextprotocol/server-sequential-thinking", program: "mcp-server-sequential-thinking"},
	{
		name: "@modelcontextprotocol/server-github", program: "mcp-server-github",
		env: []string{"GITHUB_PERSONAL_ACCESS_TOKEN=x"},
	},
	{
		name: "@modelcontextprotocol/server-puppeteer", program: "mcp-server-puppeteer",
		env: []string{"ALLOW_DANGEROUS=true"}, working: "a page is open",
		calls: `[["puppeteer_navigate", {"url": "about:blank",
			"launchOptions": {"headless": true, "args": ["--no-sandbox"], "executablePath": "` + chromium + `"}}]]`,
	},
	{
		name: "@playwright/mcp", program: "playwright-mcp", working: "a page is open",
		args:  []string{"--headless", "--no-sandbox", "--isolated", "--executable-path", chromium},
		calls: `[["browser_navigate", {"url": "about:blank"}]]`,
	},
	{
		name: "@executeautomation/playwright-mcp-server", program: "playwright-mcp-server",
		working: "a page is open",
		env:     []string{"CHROME_EXECUTABLE_PATH=" + chromium},
		calls:   `[["playwright_navigate", {"url": "about:blank", "headless": true}]]`,
	},
	{
		name: "chrome-devtools-mcp", program: "chrome-devtools-mcp", working: "a page is open",
		args:  []string{"--headless", "--isolated", "--executablePath", chromium, "--chromeArg=--no-sandbox"},
		calls: `[["new_page", {"url": "about:blank"}]]`,
	},
	{
		name: "@wonderwhy-er/desktop-commander", program: "desktop-commander", working: "a command runs",
		calls: `[["start_process", {"command": "sleep 1000", "timeout_ms": 1000}]]`,
	},
	{name: "@upstash/context7-mcp", program: "context7-mcp"},
	{name: "@notionhq/notion-mcp-server", program: "notion-mcp-server", env: []string{"NOTION_TOKEN=ntn_x"}},
	{name: "firecrawl-mcp", program: "firecrawl-mcp", env: []string{"FIRECRAWL_API_KEY=fc-x"}},
	{name: "@sentry/mcp-server", program: "sentry-mcp", args: []string{"--access-token=x"}},
	{name: "@azure/mcp", program: "azmcp", args: []string{"server", "start"}},
	{name: "mongodb-mcp-server", program: "mongodb-mcp-server"},
	{name: "figma-console-mcp", program: "figma-console-mcp"},
	{name: "cursor-talk-to-figma-mcp", program: "cursor-talk-to-figma-mcp"},
	{
		name: "mcp-remote", program: "mcp-remote", working: "to a server on loopback",
		args: []string{"http://" + remote + "/mcp", "--allow-http"},
	},
	{name: "kubernetes-mcp-server", program: "kubernetes-mcp-server", working: "Go below Node.js"},
	{name: "github.com/grafana/mcp-grafana/cmd/mcp-grafana", program: "bin/mcp-grafana", working: "Go"},
	{name: "github.com/mark3labs/mcp-go/examples/everything", program: "bin/everything", working: "Go"},
}

// A way is one in which a server is started and its client ends.
type way struct {
	title    string
	below    string // "npx", "uvx" or ""
	terminal bool   // it is closed; otherwise the client is killed
}

var ways = []way{
	{title: "SIGKILL of the client"},
	{title: "closed terminal", terminal: true},
	{title: "SIGKILL, server below `npx`", below: "npx"},
	{title: "SIGKILL, server below a stand-in for `uvx`", below: "uvx"},
}

func (s server) isOfNPM() bool { return !strings.Contains(s.program, "/") }

// path is that of the program below the directory of the servers.
func (s server) path() string {
	if s.isOfNPM() {
		return filepath.Join("node_modules/.bin", s.program)
	}
	return s.program
}

// command is that of a server, below a package runner and behind mcpscope.
func (s server) command(b *testing.B, dir string, w way, contained bool) []string {
	line := []string{filepath.Join(dir, s.path())}
	switch w.below {
	case "npx":
		line = []string{"npx", "--yes", s.name}
	case "uvx":
		clients, err := filepath.Abs("../../.cache/clients/bin/uvxlike")
		if err != nil {
			b.Fatal(err)
		}
		line = []string{clients, line[0]}
	}
	line = append(line, s.args...)
	if contained {
		line = append([]string{mcpscope, "run", "--"}, line...)
	}
	return line
}

func (s server) title(dir string) string {
	name := fmt.Sprintf("%s %s", strings.TrimPrefix(s.name, "github.com/"), version(dir, s.name))
	if s.working != "" {
		name += ", " + s.working
	}
	return name
}

// BenchmarkServers prints the table of servers.
func BenchmarkServers(b *testing.B) {
	dir := installed(b)
	startRemote(b, dir)
	t := &table{
		what: "server", contained: "all four, with `mcpscope run --` in front of the server",
		ways: ways, starts: serverStarts,
	}
	for _, s := range servers {
		r := row{name: s.title(dir)}
		for _, w := range ways {
			if w.below == "npx" && !s.isOfNPM() {
				r.bare = append(r.bare, count{})
				continue
			}
			r.bare = append(r.bare, s.cell(b, dir, w, false))
			r.contained.add(s.cell(b, dir, w, true))
		}
		t.rows = append(t.rows, r)
	}
	t.print()
	b.ReportMetric(0, "ns/op") // the duration says nothing
}

// cell measures a server that is started and ended in one way.
func (s server) cell(b *testing.B, dir string, w way, contained bool) (c count) {
	name := fmt.Sprintf("%s%s/%s/contained=%v", s.name, s.working, w.title, contained)
	b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
		c = measure(b, serverStarts, func() func() running { return s.start(b, dir, w, contained) })
		b.ReportMetric(float64(c.left), "left")
		b.ReportMetric(float64(c.ran), "ran")
	})
	return c
}

// start starts a client with the server. The returned function waits until the client has called what it calls.
func (s server) start(b *testing.B, dir string, w way, contained bool) func() running {
	b.Helper()
	calls := s.calls
	if calls == "" {
		calls = "[]"
	}
	home := b.TempDir()
	writeKubeconfig(b, home)
	cmd := exec.Command("node", filepath.Join(dir, "client.mjs"), calls)
	cmd.Args = append(cmd.Args, s.command(b, dir, w, contained)...)
	cmd.Dir = dir // where npx finds packages that are installed
	cmd.Env = append(os.Environ(), "HOME="+home, "npm_config_offline=true", "npm_config_update_notifier=false")
	cmd.Env = append(cmd.Env, s.env...)
	return startClient(b, cmd, w, "ready")
}

// startClient starts a client. The returned function waits until it says a line.
func startClient(b *testing.B, cmd *exec.Cmd, w way, line string) func() running {
	b.Helper()
	out, end := pipe(b, cmd)
	if w.terminal {
		out, end = terminal(b, cmd)
	}
	group := bed.Group(b, "start")
	if err := escape.StartIn(group, cmd); err != nil {
		b.Fatal(err)
	}
	ready := make(chan error, 1)
	go readUntil(out, line, ready)
	return func() running {
		select {
		case err := <-ready:
			if err != nil {
				b.Fatal(err)
			}
		case <-time.After(startsWithin):
			b.Fatalf("not ready after %v", startsWithin)
		}
		return running{beside: []int{cmd.Process.Pid}, end: func() {
			end()
			_ = cmd.Wait() // killed
		}}
	}
}

// readUntil tells when a line has come. It reads to the end, so that nothing that writes there waits.
func readUntil(out io.Reader, line string, ready chan<- error) {
	var said []byte
	isReady := false
	for text := make([]byte, 4096); ; {
		n, err := out.Read(text)
		said = append(said, text[:n]...)
		if !isReady && strings.Contains("\n"+strings.ReplaceAll(string(said), "\r\n", "\n"), "\n"+line+"\n") {
			isReady = true
			ready <- nil
		}
		if err != nil {
			if !isReady {
				ready <- fmt.Errorf("the client has ended (%w), and says %s", err, said)
			}
			return
		}
	}
}

// pipe has the client write to a pipe. Its end is SIGKILL.
func pipe(b *testing.B, cmd *exec.Cmd) (out *os.File, end func()) {
	b.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		out.Close()
		in.Close()
	})
	cmd.Stdout = in
	cmd.Stderr = in
	return out, func() { _ = cmd.Process.Kill() } // it was not waited for
}

// terminal makes the client the leader of a session with a terminal. Its end is that the terminal is closed.
func terminal(b *testing.B, cmd *exec.Cmd) (out *os.File, end func()) {
	b.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx") // one that does not block: a read does not hold it open
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		b.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		b.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		master.Close()
		slave.Close()
	})
	cmd.Stdin = slave
	cmd.Stdout = slave
	cmd.Stderr = slave
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	return master, func() {
		slave.Close()
		master.Close()
	}
}

// writeKubeconfig is for the server of Kubernetes, which wants one.
func writeKubeconfig(b *testing.B, home string) {
	b.Helper()
	const config = `apiVersion: v1
kind: Config
clusters: [{name: x, cluster: {server: "http://127.0.0.1:8001"}}]
contexts: [{name: x, context: {cluster: x, user: x}}]
current-context: x
users: [{name: x, user: {}}]
`
	dir := filepath.Join(home, ".kube")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
}

// startRemote starts a server of HTTP.
func startRemote(b *testing.B, dir string) {
	b.Helper()
	cmd := exec.Command(filepath.Join(dir, "node_modules/.bin/mcp-server-everything"), "streamableHttp")
	_, port, _ := strings.Cut(remote, ":")
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs
		_ = cmd.Wait()         // killed
	})
}
