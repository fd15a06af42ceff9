// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// ends make the stdin and the stdout of a program. other are the ends that the test holds.
type ends func(t *testing.T, dir string) (stdin, stdout *os.File, other []*os.File)

func openFile(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return read, write
}

// pipes are those of most SDKs.
func pipes(t *testing.T, _ string) (stdin, stdout *os.File, other []*os.File) {
	stdin, in := newPipe(t)
	out, stdout := newPipe(t)
	return stdin, stdout, []*os.File{in, out}
}

// sockets are those of Node.
func sockets(t *testing.T, _ string) (stdin, stdout *os.File, other []*os.File) {
	var files [2][2]*os.File
	for i := range files {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[i][0] = os.NewFile(uintptr(pair[0]), "theirs")
		files[i][1] = os.NewFile(uintptr(pair[1]), "ours")
	}
	return files[0][0], files[1][0], []*os.File{files[0][1], files[1][1]}
}

// to gives stdout a file.
func to(path string) ends {
	return func(t *testing.T, dir string) (stdin, stdout *os.File, other []*os.File) {
		stdin, in := newPipe(t)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return stdin, openFile(t, path, os.O_WRONLY|os.O_CREATE), []*os.File{in}
	}
}

// from gives stdin a file.
func from(path string) ends {
	return func(t *testing.T, dir string) (stdin, stdout *os.File, other []*os.File) {
		out, stdout := newPipe(t)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return openFile(t, path, os.O_RDONLY|os.O_CREATE), stdout, []*os.File{out}
	}
}

// fifo is a stdin with a name, whose writer has gone.
func fifo(t *testing.T, dir string) (stdin, stdout *os.File, other []*os.File) {
	path := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	in := openFile(t, path, os.O_RDWR)
	out, stdout := newPipe(t)
	return openFile(t, path, os.O_RDONLY), stdout, []*os.File{in, out}
}

// onTerminal gives stdout a terminal, and stdin too where that is wanted. Its other side stays open.
func onTerminal(stdinToo bool) ends {
	return func(t *testing.T, _ string) (stdin, stdout *os.File, other []*os.File) {
		master := openFile(t, "/dev/ptmx", os.O_RDWR|unix.O_NOCTTY)
		t.Cleanup(func() { _ = master.Close() }) // a terminal
		if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
			t.Fatal(err)
		}
		const how = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
		fd, _, errno := unix.Syscall(unix.SYS_IOCTL, master.Fd(), unix.TIOCGPTPEER, how)
		if errno != 0 {
			t.Fatal(errno)
		}
		slave := os.NewFile(fd, "terminal")
		if stdinToo {
			return slave, slave, nil
		}
		stdin, in := newPipe(t)
		return stdin, slave, []*os.File{in}
	}
}

// A field is what the cases are about: directories, and what is configured for them.
type field struct {
	base, project, web string
	server             string // a file with an absolute path
}

func newField(t *testing.T, u host.User) field {
	t.Helper()
	base := u.Home + "/field"
	f := field{base: base, project: base + "/mcp", web: base + "/web", server: base + "/opt/server.py"}
	h := host.Current(t)
	host.Must(t, h.Command(u, "mkdir", "-p", f.project+"/sub", f.web, base+"/opt"))
	t.Cleanup(func() { host.Must(t, h.Command(u, "rm", "-r", base)) })
	server := func(words ...string) map[string]any {
		return map[string]any{"command": words[0], "args": words[1:]}
	}
	listening := server("mcp-web", "--port", "1")
	listening["type"] = "http"
	listening["url"] = "http://127.0.0.1:1"
	config, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{
			"notes": server("notes-mcp", "--serve"), "npx": server("npx", "-y", "@a/notes", "--token", "hunter2"),
			"uvx": server("uvx", "mcp-notes"), "python": server("python3", f.server),
			"node": server("node", base+"/opt/index.js", "--stdio"), "build": server("npm", "run", "mcp"),
			"socat": server("socat", "-", "UNIX-CONNECT:"+base+"/socket"), "web": listening,
		},
		"projects": map[string]any{
			f.project: map[string]any{"mcpServers": map[string]any{"project": server("python3", "main.py")}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	place(t, u, u.Home+"/.claude.json", string(config))
	return f
}

// standing is what sweep makes of a process.
type standing string

const (
	leaked standing = "leak"
	unsure standing = "unsure"
	absent standing = "" // it is not listed
)

// A present is a process in the field.
type present struct {
	what    string
	program program
	ends    ends
	isHeld  bool // the other ends stay open: its client lives
	want    standing
}

func line(text string) []string { return strings.Fields(text) }

// leaks are the servers whose clients have gone.
func (f field) leaks() []present {
	npx := &program{Argv: line("sh -c notes"), Setsid: true, Below: &program{
		Argv: line("node /opt/_npx/node_modules/.bin/notes --token hunter2"), Setsid: true}}
	return []present{
		{"of a project", program{Argv: line("python3 main.py"), Dir: f.project}, pipes, false, leaked},
		{"of a Node client", program{Argv: line("node " + f.base + "/opt/index.js --stdio"), Dir: f.web}, sockets, false, leaked},
		{"of the Python SDK", program{Argv: line("/usr/bin/python3 " + f.server), Dir: "/", Setsid: true}, pipes, false, leaked},
		{"npx and what it runs", program{Argv: []string{"npm exec @a/notes --token hunter2"}, Dir: f.web, Below: npx}, pipes, false, leaked},
		{"uvx, which holds the stdin of its child", program{Argv: line("/opt/bin/uv tool uvx mcp-notes"), Dir: "/", Below: &program{
			Argv: line("/opt/bin/python /opt/bin/mcp-notes"), Pipes: true}}, sockets, false, leaked},
		{"a script", program{Argv: line("/bin/sh /usr/bin/notes-mcp --serve"), Dir: f.web, Setsid: true}, pipes, false, leaked},
	}
}

// bystanders are processes that have a dead pipe, the words, the directory or the descendants of a server.
func (f field) bystanders() []present {
	main := program{Argv: line("python3 main.py"), Dir: f.project}
	elsewhere := program{Argv: line("python3 main.py"), Dir: f.web}
	notes := program{Argv: line("notes-mcp --serve"), Dir: f.web}
	below := func(p program) *program { return &p }
	return []present{
		{"an agent with its server", program{Argv: line("agent run"), Dir: f.project,
			Below: below(program{Argv: main.Argv, Pipes: true})}, pipes, false, unsure},
		{"an agent, detached by Node, with its server", program{Argv: line("node agent.js"), Setsid: true,
			Below: below(program{Argv: notes.Argv, Pipes: true})}, sockets, false, unsure},
		{"a supervisor whose children have its stdin", program{Argv: line("supervisord -n"), Below: &notes}, pipes, false, unsure},
		{"an editor with a language server of the same words", program{Argv: line("vim main.py"), Dir: f.project, Below: &main}, pipes, false, unsure},
		{"a daemon of another project", elsewhere, to("log"), false, unsure},
		{"a daemon of another project, whose output is lost", elsewhere, pipes, false, unsure},
		{"a daemon below the project", program{Argv: main.Argv, Dir: f.project + "/sub"}, pipes, false, unsure},
		{"a service with a log", main, to("log"), false, unsure},
		{"a service under nohup", main, to("/dev/null"), false, unsure},
		{"a job whose output is read", main, func(t *testing.T, dir string) (stdin, stdout *os.File, other []*os.File) {
			out, stdout := newPipe(t)
			t.Cleanup(func() { _ = out.Close() }) // nobody reads it
			stdin, in := newPipe(t)
			return stdin, stdout, []*os.File{in}
		}, false, absent},
		{"in a pane of tmux", main, onTerminal(false), false, absent},
		{"a REPL", main, onTerminal(true), false, absent},
		{"a job of cron", main, from("/dev/null"), false, absent},
		{"a batch job with a file as its stdin", main, from("input"), false, absent},
		{"behind a named FIFO", main, fifo, false, absent},
		{"a server whose client lives", main, pipes, true, absent},
		{"a server whose Node client lives", notes, sockets, true, absent},
		{"a service that listens on TCP", program{Argv: notes.Argv, Dir: f.web, Listen: "tcp"}, pipes, false, unsure},
		{"npx, whose server listens on TCP", program{Argv: []string{"npm exec @a/notes --token hunter2"}, Dir: f.web,
			Below: below(program{Argv: line("node /opt/_npx/notes"), Listen: "tcp"})}, pipes, false, unsure},
		{"a socat listener", program{Argv: line("socat - UNIX-CONNECT:" + f.base + "/socket"), Listen: f.base + "/socket"}, pipes, false, unsure},
		{"a server that clients reach by HTTP", program{Argv: line("mcp-web --port 1")}, pipes, false, unsure},
		{"a build in another project", program{Argv: line("npm run mcp"), Dir: f.web}, pipes, false, unsure},
		{"a language server in the project", program{Argv: line("pylsp main.py"), Dir: f.project}, pipes, false, unsure},
		{"the same program with another flag", program{Argv: line("python3 " + f.server + " --http")}, pipes, false, unsure},
		{"a file of the same name", program{Argv: line("python3 " + f.web + "/server.py")}, pipes, false, unsure},
		{"another package", program{Argv: []string{"npm exec @a/other --token hunter2"}}, pipes, false, unsure},
	}
}

// comes starts the process, and has its client go unless that stays.
func (p present) comes(t *testing.T, u host.User) []*escape.Process {
	t.Helper()
	dir := u.Home + "/field/web"
	stdin, stdout, other := p.ends(t, dir)
	all := p.program.leave(t, u, stdin, stdout)
	_ = errors.Join(stdin.Close(), stdout.Close()) // a terminal is both
	for _, file := range other {
		if p.isHeld {
			t.Cleanup(func() { _ = file.Close() }) // nothing is written
		} else if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// swept is the part of `sweep --json` that the field compares.
type swept struct {
	Server  struct{ State standing }
	PID     int
	Command string
	Doubt   string
	Stopped *bool
}

func sweepJSON(t *testing.T, u host.User, flags ...string) map[int]swept {
	t.Helper()
	argv := append([]string{mcpscope, "sweep", "--older-than", "0", "--json"}, flags...)
	out, err := host.Current(t).Command(u, argv...).Output()
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	found := map[int]swept{}
	for text := range strings.Lines(string(out)) {
		var s swept
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret: %s", text)
		}
		found[s.PID] = s
	}
	return found
}

// leaksIn are those that a configuration proves.
func leaksIn(found map[int]swept) map[int]swept {
	maps.DeleteFunc(found, func(_ int, s swept) bool { return s.Server.State != leaked })
	return found
}

// Beside real leaks are agents, daemons, services, builds, editors, REPLs and servers in use with the same words, in
// the same directories. Only the leaks are stopped, with all that they have started.
func TestSweepHarmsNoBystander(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		f := newField(t, u)
		cases := slices.Concat(f.leaks(), f.bystanders())
		processes := make([][]*escape.Process, len(cases))
		for i, c := range cases {
			processes[i] = c.comes(t, u)
		}
		host.Must(t, host.Current(t).Command(u, mcpscope, "sweep", "--quiet")) // the timer's
		listed := sweepJSON(t, u)
		for i, c := range cases {
			for _, p := range processes[i] {
				if p.Ended(0) {
					t.Errorf("%s: no person asked for its end", c.what)
				}
			}
		}
		stopped := sweepJSON(t, u, "--yes")
		for i, c := range cases {
			main := processes[i][0].PID
			if got := listed[main]; got.Server.State != c.want || (got.Doubt != "") != (c.want == unsure) {
				t.Errorf("%s is %+v, want %q", c.what, got, c.want)
			}
			done := stopped[main].Stopped
			if isStopped := done != nil && *done; isStopped != (c.want == leaked) {
				t.Errorf("%s: stopped is %v", c.what, isStopped)
			}
			for _, p := range processes[i] {
				if c.want == leaked {
					escape.WantEnded(t, p)
				} else if p.Ended(0) {
					t.Errorf("%s was harmed", c.what)
				}
			}
		}
		if len(f.bystanders()) < 20 {
			t.Error("a crowd is larger")
		}
	})
}

// Root judges the processes of a user by what that user has configured, in every command, and by nothing of root's.
func TestRootJudgesUsersByTheirOwn(t *testing.T) {
	u := host.Tester
	h := host.Current(t)
	f := newField(t, u)
	place(t, host.Root, host.Root.Home+"/.claude.json", `{"mcpServers": {"theirs": {"command": "roots-mcp"}}}`)
	leak := present{"", program{Argv: line("notes-mcp --serve"), Dir: f.web}, sockets, false, leaked}.comes(t, u)
	other := present{"", program{Argv: line("roots-mcp"), Dir: f.web}, pipes, false, unsure}.comes(t, u)
	roots := present{"", program{Argv: line("notes-mcp --serve"), Dir: f.web}, pipes, false, unsure}.comes(t, host.Root)
	if found := leaksIn(sweepJSON(t, host.Root)); len(found) > 0 {
		t.Errorf("without --all-users: %+v", found)
	}
	// The files of other users have a second to be read, which a busy machine may need for something else.
	sweptAtLast := func(flags ...string) (found map[int]swept) {
		pace.Eventually(escape.Patience, func() bool {
			found = leaksIn(sweepJSON(t, host.Root, append(flags, "--all-users")...))
			return len(found) > 0
		})
		return found
	}
	if found := sweptAtLast(); len(found) != 1 || found[leak[0].PID].Server.State != leaked {
		t.Errorf("%+v", found)
	}

	// A user whose files do not end, or are not that user's to read, delays and misleads nobody.
	secret := filepath.Join(host.Root.Home, "secret.json")
	place(t, host.Root, secret, `{"mcpServers": {"theirs": {"command": "roots-mcp"}}}`)
	if err := os.Chmod(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	config := u.Home + "/.claude.json"
	host.Must(t, h.Command(u, "mv", config, config+".kept"))
	host.Must(t, h.Command(u, "ln", "-s", secret, config))
	found := leaksIn(sweepJSON(t, host.Root, "--all-users"))
	host.Must(t, h.Command(u, "rm", config))
	host.Must(t, h.Command(u, "mkfifo", config))
	maps.Copy(found, leaksIn(sweepJSON(t, host.Root, "--all-users")))
	host.Must(t, h.Command(u, "mv", config+".kept", config))
	if len(found) > 0 {
		t.Errorf("by a file that the user may not read, or a FIFO: %+v", found)
	}

	done := sweptAtLast("--yes")[leak[0].PID].Stopped
	if done == nil || !*done {
		t.Error("it was not stopped")
	}
	escape.WantEnded(t, leak...)
	for _, p := range slices.Concat(other, roots) {
		if p.Ended(0) {
			t.Error("a bystander was harmed")
		}
	}
}
