// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// leak is what the tests read of `leaks --json`.
type leak struct {
	PID       int
	Name      string
	Server    *struct{ Name, File string }
	Parent    struct{ PID int }
	Memory    uint64 `json:"memory_bytes"`
	Processes int
	Why       []string
	Ended     *bool
}

// searcher is a user with a home of the test's own.
type searcher struct {
	t    *testing.T
	user host.User
	home string
}

func newSearcher(t *testing.T, u host.User) *searcher {
	t.Helper()
	home, err := os.MkdirTemp(host.Shared, "leaks.")
	if err = errors.Join(err, os.Chmod(home, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // with the host, at the latest
	return &searcher{t, u, home}
}

// write writes a file below the home.
func (s *searcher) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// leaks are those of this process: the host may have others.
func (s *searcher) leaks(pid int, more ...string) []leak {
	s.t.Helper()
	out, errs, status := s.command(append([]string{"--older-than", "0", "--json", strconv.Itoa(pid)}, more...)...)
	var all struct {
		Version int
		Leaks   []leak
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || all.Version != 1 || status != 0 {
		s.t.Fatalf("version %d, %v, status %d: %s%s", all.Version, err, status, out, errs)
	}
	return all.Leaks
}

func (s *searcher) command(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	cmd := host.Current(s.t).Command(s.user, append([]string{mcpscope, "leaks"}, args...)...)
	var out, errs strings.Builder
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = &out, &errs, append(cmd.Env, "HOME="+s.home), s.home
	_ = cmd.Run() // its status is looked at
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A server that its client has left is found, and ended with all that it has started.
func TestLeaks(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		for _, mode := range []string{"ignore-both", "ignore-eof", "fork-on-term"} {
			for _, option := range []string{"--group", "--socketpair"} {
				some := (mode == "ignore-both") == (option == "--group") && (mode == "ignore-both") == (u == host.Root)
				if !some && !escape.Full() { // each looks at all that runs here
					continue
				}
				t.Run(mode+option, func(t *testing.T) { leaveOne(t, u, mode, option) })
			}
		}
	})
}

func leaveOne(t *testing.T, u host.User, mode, option string) {
	s, m := newSearcher(t, u), escape.NewMembers(t)
	t.Cleanup(m.Kill)
	cmd := host.Current(t).Command(u, programs.Client, option, "--", programs.Zoo, "--register", m.Address, mode)
	c := escape.StartClient(t, cmd, cmd.Start)
	if err := m.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	main, _ := m.Main()
	if found := s.leaks(main.PID); len(found) > 0 {
		t.Errorf("its client runs: %+v", found)
	}
	c.Own.Signal(unix.SIGKILL)
	if !c.Own.Ended(escape.Patience) {
		t.Fatal("the client outlived SIGKILL")
	}
	found := s.leaks(main.PID)
	if len(found) != 1 || found[0].Parent.PID != 1 || found[0].Memory == 0 || found[0].Server != nil || !strings.Contains(strings.Join(found[0].Why, "; "), "so is that of its stdout") {
		t.Fatalf("%+v", found)
	}
	s.stops(m, main.PID)
}

// stops fails the test unless one that is a leak is ended, and that not before somebody has confirmed it.
func (s *searcher) stops(m *escape.Members, main int) {
	t, pid := s.t, strconv.Itoa(main)
	t.Helper()
	if out, errs, status := s.command(pid); out+errs != "" || status != 0 {
		t.Errorf("it was started a moment ago: %s%s", out, errs)
	}
	out, errs, status := s.command("--older-than", "0", "--stop", pid)
	if status != 1 || !strings.HasPrefix(out, "PID ") || !strings.HasSuffix(errs, "nobody has confirmed it\nmcpscope: hint: mcpscope leaks --stop --yes\n") {
		t.Errorf("without a yes: status %d, %s%s", status, out, errs)
	}
	if len(m.Running()) == 0 {
		t.Fatal("it was ended without a yes")
	}
	found := s.leaks(main, "--stop", "--yes", "--grace", "100ms")
	if len(found) != 1 || found[0].Ended == nil || !*found[0].Ended {
		t.Errorf("%+v", found)
	}
	if n := m.UntilDead(escape.Patience); n > 0 {
		t.Errorf("%d left: %q", n, m.Survivors())
	}
}

// A user's manager adopts what a client in one of its units has left.
func TestLeaksBelowAUserManager(t *testing.T) {
	u := host.Tester
	s, m := newSearcher(t, u), escape.NewMembers(t)
	t.Cleanup(m.Kill)
	fifo := filepath.Join(s.home, "in") // without an end
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Chown(fifo, u.UID, u.UID)); err != nil {
		t.Fatal(err)
	}
	client := []string{"sh", "-c", `exec "$@" <>"$0"`, fifo, programs.Client, "--group", "--", programs.Zoo, "--register", m.Address, "ignore-both"}
	unit := host.Current(t).Start(t, host.Service{User: u, Properties: []string{"KillMode=process"}, Argv: client})
	if err := m.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	main, _ := m.Main()
	if found := s.leaks(main.PID); len(found) > 0 {
		t.Errorf("its client runs: %+v", found)
	}
	pid, err := unit.MainPID()
	if err != nil {
		t.Fatal(err)
	}
	own, err := escape.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	own.Signal(unix.SIGKILL)
	if !own.Ended(escape.Patience) {
		t.Fatal("the client outlived SIGKILL")
	}
	found := s.leaks(main.PID)
	if len(found) != 1 {
		t.Fatalf("%+v", found)
	}
	var st unix.Stat_t
	parent := found[0].Parent.PID
	if err := unix.Stat(fmt.Sprintf("/proc/%d", parent), &st); err != nil || parent == 1 || int(st.Uid) != u.UID {
		t.Errorf("its parent %d is no manager of %s (%v)", parent, u.Name, err)
	}
	s.stops(m, main.PID)
}

// leave starts a command whose parent is gone, with these ends of pipes as stdin and stdout.
func leave(t *testing.T, u host.User, in, out *os.File, argv ...string) *escape.Process {
	t.Helper()
	cmd := host.Current(t).Command(u, append([]string{"sh", "-c", `"$@" <&3 >&4 2>/dev/null 3<&- 4>&- & echo $!`, "sh"}, argv...)...)
	cmd.ExtraFiles = []*os.File{in, out}
	said, err := cmd.Output()
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(said)))
	if err := errors.Join(err, convErr); err != nil {
		t.Fatal(err)
	}
	p, err := escape.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(unix.SIGKILL)
		p.Close()
	})
	return p
}

// ends are those of a pipe of the user's: nobody else may look at it.
func ends(t *testing.T, u host.User) (read, write *os.File) {
	t.Helper()
	read, write = bed.Pipe(t)
	if err := read.Chown(u.UID, u.UID); err != nil {
		t.Fatal(err)
	}
	return read, write
}

// A configured server is a leak also where its stdout goes somewhere, and has the name that it has there: of any project
// that a client knows. As long as somebody can write to its stdin it is none.
func TestLeaksOfTheConfigured(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := newSearcher(t, u)
		const script = "sleep 100007; :"
		project := s.write("elsewhere/.mcp.json", fmt.Sprintf(`{"mcpServers": {"sleeper": {"command": "sh", "args": ["-c", %q]}}}`, script))
		s.write(".claude.json", fmt.Sprintf(`{"projects": {%q: {}}}`, filepath.Dir(project)))
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		in, held := ends(t, u)
		p := leave(t, u, in, null, "sh", "-c", script)
		in.Close()
		if found := s.leaks(p.PID); len(found) > 0 {
			t.Errorf("somebody can write to it: %+v", found)
		}
		held.Close()
		if found := newSearcher(t, u).leaks(p.PID); len(found) > 0 {
			t.Errorf("it is not configured, and its stdout goes somewhere: %+v", found)
		}
		found := s.leaks(p.PID)
		if len(found) != 1 || found[0].Server == nil || found[0].Server.Name != "sleeper" || found[0].Server.File != project || found[0].Name != "sleeper" {
			t.Fatalf("%+v", found)
		}
		if found := s.leaks(p.PID, "--stop", "--yes"); len(found) != 1 || found[0].Ended == nil || !*found[0].Ended || !p.Ended(escape.Patience) {
			t.Errorf("%+v", found)
		}
		if out, err := exec.Command("pgrep", "--full", "^sleep 100007$").Output(); err == nil {
			t.Errorf("left: %s", out)
		}
	})
}

// What speaks to something below it is a client; what mcpscope runs a sweep ends.
func TestNoLeaks(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := newSearcher(t, u)
		nobody := func(argv ...string) *escape.Process {
			in, held := ends(t, u)
			lost, out := ends(t, u)
			p := leave(t, u, in, out, argv...)
			for _, f := range []*os.File{in, held, lost, out} {
				f.Close()
			}
			return p
		}
		if found := s.leaks(nobody("sleep", "100008").PID); len(found) != 1 {
			t.Errorf("one that does neither: %+v", found) // or the others prove nothing
		}
		client := nobody("sh", "-c", "sleep 100009 | cat")
		for deadline := pace.Now().Add(escape.Patience); len(s.leaks(client.PID)) > 0; { // until the shell has started both
			if pace.Until(deadline) <= 0 {
				t.Fatal("a client is called a leak")
			}
		}
		if out, err := exec.Command("pkill", "--full", "--parent", strconv.Itoa(client.PID)).CombinedOutput(); err != nil {
			t.Errorf("end what is below: %v: %s", err, out)
		}
		scope, all := orphan(t, u, "orphaned-leak")
		for _, p := range all {
			if found := s.leaks(p.PID); len(found) > 0 {
				t.Errorf("what a sweep ends: %+v", found)
			}
		}
		host.Must(t, host.Current(t).Command(u, mcpscope, "sweep"))
		gone(t, scope)
	})
}
