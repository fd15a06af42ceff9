// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	gw "github.com/mcpscope/mcpscope/internal/gateway"
)

// The same words are another program in another directory, unless they name the program everywhere.
func TestIsPlaced(t *testing.T) {
	const (
		home    = "/home/ann"
		project = "/srv/mcp"
	)
	everywhere := Server{}
	ofProject := Server{Project: project}
	withDir := Server{Dir: "/srv/set"}
	for _, c := range []struct {
		server     Server
		configured string
		running    string // "" for the same
		dir        string
		want       bool
	}{
		{ofProject, "python3 main.py", "", project, true},
		{ofProject, "python3 main.py", "", "/srv/web", false},
		{ofProject, "python3 main.py", "", project + "/sub", false},
		{ofProject, "npm start", "", project + "/sub", false},
		{ofProject, "notes serve", "", project + "/sub", true},
		{ofProject, "notes serve", "", "/srv/mcp2", false},
		{ofProject, "notes serve", "", "", false},
		{ofProject, "python3 /opt/main.py", "", "/srv/web", true},
		{withDir, "python3 main.py", "", "/srv/set", true},
		{withDir, "notes", "", "/srv/set/sub", false},
		{withDir, "python3 /opt/main.py", "", "/", false},
		{everywhere, "python3 main.py", "", home, true},
		{everywhere, "python3 main.py", "", "/", false},
		{everywhere, "python3 main.py --log /dev/null", "", "/srv/web", false},
		{everywhere, "python3 main.py --db /srv/a.db", "", "/srv/web", false},
		{everywhere, "python3 -m notes --db /srv/a.db", "", "/srv/web", true},
		{everywhere, "python3 -m notes", "", "/srv/web", false},
		{everywhere, "node .", "", "/srv/web", false},
		{everywhere, "bash run.sh", "", "/srv/web", false},
		{everywhere, "npm run mcp", "", "/srv/web", false},
		{everywhere, "uv run notes", "", "/srv/web", false},
		{everywhere, "uv --directory /srv/mcp run main.py", "", "/srv/web", true},
		{everywhere, "make -C/srv/mcp serve", "", "/srv/web", false},
		{everywhere, "bin/notes", "", "/srv/web", false},
		{everywhere, "notes", "", "/srv/web", true},
		{everywhere, "npx -y @a/notes@1.2.3", "", "/srv/web", true},
		{everywhere, "uvx --from git+https://h/a/b notes", "", "/srv/web", true},
		{everywhere, "uvx notes --repository sub/dir", "", "/srv/web", false},
		{everywhere, "docker run -i --rm ghcr.io/a/notes", "", "/srv/web", true},
		{everywhere, "docker compose run notes", "", "/srv/web", false},
		{everywhere, "/srv/bin/notes", "", "/", true},
		{everywhere, "/srv/bin/notes", "/opt/bin/notes", home, false},
		{everywhere, "/srv/a/bin/python main.py", "/srv/b/bin/python main.py", home, false},
		{everywhere, "/usr/bin/npx notes", "npx notes", "/srv/web", true},
		{everywhere, "/srv/bin/notes", "python3 /srv/bin/notes", "/", true},
	} {
		s := c.server
		s.Argv = strings.Fields(c.configured)
		running := s.Argv
		if c.running != "" {
			running = strings.Fields(c.running)
		}
		if !s.IsStartedBy(running) {
			t.Errorf("%s does not start %s", c.running, c.configured)
			continue
		}
		if got := s.isPlaced(running, c.dir, home); got != c.want {
			t.Errorf("%s in %s (%+v): %v, want %v", c.configured, c.dir, c.server, got, c.want)
		}
	}
}

// A line for a shell has words, too.
func TestLinesForShells(t *testing.T) {
	for line, want := range map[string]bool{
		"notes-mcp --daemon x </dev/null; exec notes-mcp --deaf": true,
		"exec python3 main.py":              false,
		"cd /srv/mcp && exec python3 a.py":  false,
		"cd /srv/mcp && exec npm start":     true,
		"npm start":                         false,
		"exec notes-mcp --config ./a.toml":  false,
		"exec notes-mcp --config=/srv/a.db": true,
	} {
		s := Server{Configured: gw.Configured{Argv: []string{"sh", "-c", line}}}
		if got := s.isPlaced(s.Argv, "/srv/web", "/home/ann"); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

// Package runners change the command line that a client started.
func TestAsStarted(t *testing.T) {
	for _, c := range []struct {
		running, configured []string
		want                bool
	}{
		{[]string{"npm exec @a/notes --db a b", "", ""}, []string{"npx", "-y", "@a/notes", "--db", "a b"}, true},
		{[]string{"npm exec @a/notes"}, []string{"/usr/bin/npx", "@a/notes"}, true},
		{[]string{"npm exec @a/notes"}, []string{"npx", "-y", "@a/other"}, false},
		{[]string{"npm exec @a/notes"}, []string{"npx", "-p", "@a/notes", "notes"}, false},
		{[]string{"/root/.local/bin/uv", "tool", "uvx", "notes", "--x"}, []string{"uvx", "notes", "--x"}, true},
		{[]string{"uv", "tool", "uvx", "notes"}, []string{"uvx", "other"}, false},
		{[]string{"uv", "run", "notes"}, []string{"uvx", "notes"}, false},
		{nil, []string{"npx"}, false},
	} {
		known := Configurations{Servers: []Server{{Configured: gw.Configured{Name: "notes", Argv: c.configured}}}}
		server, _ := known.find(asStarted(c.running), "/")
		if (server != nil) != c.want {
			t.Errorf("%q of %q: %v", c.running, c.configured, server)
		}
	}
}

// Of several servers with the same words, the one of this directory is meant.
func TestFindPrefersTheDirectory(t *testing.T) {
	argv := []string{"python3", "main.py"}
	known := Configurations{Servers: []Server{
		{Configured: gw.Configured{Name: "a", Argv: argv}, Project: "/a"},
		{Configured: gw.Configured{Name: "b", Argv: argv}, Project: "/b"},
	}}
	for dir, want := range map[string]string{"/a": "a", "/b": "b"} {
		if s, isPlaced := known.find(argv, dir); s == nil || s.Name != want || !isPlaced {
			t.Errorf("%s: %+v, %v", dir, s, isPlaced)
		}
	}
	if s, isPlaced := known.find(argv, "/c"); s == nil || isPlaced {
		t.Errorf("%+v, %v", s, isPlaced)
	}
}

func TestListens(t *testing.T) {
	if (listeners{}).has(os.Getpid()) {
		t.Error("this process listens before it does")
	}
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		if !(listeners{}).has(os.Getpid()) {
			t.Errorf("%s: not seen", network)
		}
		_ = l.Close() // nothing is connected
	}
	if (listeners{}).has(1 << 30) {
		t.Error("who is not there listens")
	}
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	if err := unix.Waitid(unix.P_PID, child.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if (listeners{}).has(child.Process.Pid) {
		t.Error("who has ended, and was not reaped, listens")
	}
}

// The directories of servers are those that their files name: of a project, of a section for a project, and by cwd.
func TestReadOwn(t *testing.T) {
	home := t.TempDir()
	project := filepath.Join(home, "shop")
	if err := os.MkdirAll(project, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	t.Chdir(home)
	files := map[string]string{
		home + "/.claude.json": `{"mcpServers": {"all": {"command": "a", "args": ["~/x", "${HOME}/y", "~"]}, "set": {"command": "b", "cwd": "~/shop"}},
			"projects": {"` + project + `/": {"mcpServers": {"section": {"command": "c", "cwd": "sub"}}}}}`,
		project + "/.mcp.json": `{"mcpServers": {"file": {"command": "d"}, "web": {"command": "e", "type": "http", "url": "http://h"}}}`,
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]Server{
		"all": {}, "set": {Dir: project}, "section": {Project: project, Dir: project + "/sub"}, "file": {Project: project},
		"web": {Project: project},
	}
	known := ReadOwn()
	if known.Home != home || len(known.Unread) > 0 || len(known.Servers) != len(want) {
		t.Errorf("%+v", known)
	}
	for _, s := range known.Servers {
		w := want[s.Name]
		if s.Project != w.Project || s.Dir != w.Dir || s.Listens != (s.Name == "web") {
			t.Errorf("%+v, want %+v", s, w)
		}
		if line := strings.Join(s.Argv, " "); s.Name == "all" && line != "a "+home+"/x "+home+"/y ~" {
			t.Errorf("%q", line)
		}
	}
}
