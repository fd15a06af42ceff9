// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// newEarlyYard is one where servers start before their manager has the scope: the slice is there.
func newEarlyYard(t *testing.T, u host.User) *yard {
	t.Helper()
	y := newYard(t, u)
	_ = y.refused(t) // makes the slice
	return y
}

// The manager takes a directory over in which a server runs, and has then what it has of a scope that it has made.
func TestScopeIsTakenOver(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		y := newEarlyYard(t, u)
		c := y.launch(t, u.Slice(), "taken-over")
		if threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.client.Server.PID)); err != nil || len(threads) != 1 {
			t.Errorf("the launcher has %d threads, as with a Go runtime (%v)", len(threads), err)
		}
		c.awaitScope()
		for property, want := range map[string]string{
			"ActiveState": "active", "Delegate": "yes", "Slice": "mcp.slice", "KillSignal": "28", "BindsTo": filepath.Base(y.dir),
			"ControlGroup": strings.TrimPrefix(c.scope, "/sys/fs/cgroup"),
		} {
			if got := control(t, u, "show", "--value", "--property="+property, c.unit()); got != want {
				t.Errorf("%s is %q, want %q", property, got, want)
			}
		}
		if pids, err := escape.GroupPids(c.scope); len(pids) > 0 || err != nil {
			t.Errorf("in the scope's own group: %v, %v", pids, err)
		}
		c.ends()
	})
}

// A manager that refuses to take the directory over leaves a server that runs, and a note.
func TestManagerRefusesAScope(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		y := newEarlyYard(t, u)
		dir := u.Units() + "/mcp-refused-.scope.d" // for all scopes whose names begin so
		t.Cleanup(func() { host.Must(t, y.command("rm", "-r", dir)) })
		host.Must(t, y.command("sh", "-c", `mkdir -p "$0" && printf '[Unit]\nRefuseManualStart=yes\n' >"$0/test.conf"`, dir))
		control(t, u, "daemon-reload")
		c := y.launch(t, u.Slice(), "refused")
		if err := escape.AwaitNote(c.scope, "systemd does not know of", patience); err != nil {
			t.Error(err)
		}
		c.lives()
		c.ends()
	})
}

// A server whose client is in a scope that the manager does not know is bound to nothing: its own scope would be stopped at once.
func TestClientIsInAScopeThatNoManagerKnows(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		y := newEarlyYard(t, u)
		m := escape.NewMembers(t)
		site := y.site(t)
		own := filepath.Join(u.Slice(), "unknown.scope")
		if err := os.Mkdir(own, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := bed.Destroy(own); err != nil {
				t.Error(err)
			}
		})
		c := awaitServer(t, site.NewClient(own, nil, zoo(u, "bound", m, "plain", "--backend", backendOf(u), "--eof-grace", "1m")), m, u.Slice())
		c.awaitScope()
		if bound := control(t, u, "show", "--value", "--property=BindsTo", c.unit()); bound != "" {
			t.Errorf("its scope is bound to %q", bound)
		}
		c.lives()
		c.ends()
	})
}

// A manager that does not answer does not keep a server from answering, nor from ending.
func TestManagerHangs(t *testing.T) {
	u := host.Tester
	y := newEarlyYard(t, u)
	awake := y.stopManager(t)
	first := y.launch(t, u.Slice(), "hangs")
	first.lives()
	first.ends()
	second := y.launch(t, u.Slice(), "answers-late")
	second.lives()
	awake()
	second.awaitScope()
	second.ends()
}

// Launchers that start a scope ask the manager one after the other: its work grows with the square of those that are connected.
func TestStartsInTurn(t *testing.T) {
	u := host.Tester
	y := newEarlyYard(t, u)
	awake := y.stopManager(t)
	var directory unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/run/user/%d/systemd", u.UID), &directory); err != nil {
		t.Fatal(err)
	}
	var starts []*exec.Cmd
	for range 3 {
		cmd := y.host.Command(u, mcpscope, "run", "--backend", backendOf(u), "--", "true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		starts = append(starts, cmd)
	}
	if !pace.Eventually(patience, func() bool { return hasWaitingLock(t, directory.Ino) }) {
		t.Error("no launcher waits for its turn")
	}
	awake()
	for _, cmd := range starts {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// hasWaitingLock reports whether a process waits for a lock of the file (proc_locks(5)).
func hasWaitingLock(t *testing.T, inode uint64) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	const waits, file = "->", 6
	for line := range strings.Lines(string(text)) {
		columns := strings.Fields(line)
		if len(columns) > file && columns[1] == waits && strings.HasSuffix(columns[file], fmt.Sprint(":", inode)) {
			return true
		}
	}
	return false
}

// A launcher that is killed before the manager answers leaves no directory: the manager refuses a scope for a process that has ended.
func TestLauncherKilledWhileItAsks(t *testing.T) {
	y := newEarlyYard(t, host.Tester)
	awake := y.stopManager(t)
	c := y.launch(t, y.user.Slice(), "asked")
	c.client.Server.Signal(unix.SIGKILL)
	awake()
	c.wantGone("SIGKILL")
}

// A terminal's signals reach the process that asks the manager, too. The server gets ^C when it starts, as it would
// without mcpscope, and nothing starts in another place.
func TestInterruptedWhileItAsks(t *testing.T) {
	y := newEarlyYard(t, host.Tester)
	awake := y.stopManager(t)
	cmd := y.host.Command(y.user, append(run(y.user, "typed"), "cat")...)
	term := transparent.StartTerminal(t, cmd, cmd.Start)
	if !pace.Eventually(patience, asksForAScope) {
		t.Fatal("no process asks for a scope")
	}
	term.Type("\x03")
	awake()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended as without ^C")
		}
	case <-pace.After(patience):
		t.Error("the server runs")
	}
	escape.WantNoServers(t, y.user.Slice(), "typed", patience)
}

// asksForAScope reports whether a launcher in a login session has the manager make a scope.
func asksForAScope() bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(files, func(file string) bool {
		line, _ := os.ReadFile(file) // nothing, of one that has ended
		return strings.HasPrefix(string(line), "mcpscope\x00scope\x00")
	})
}

// A helper that is killed before the manager answers leaves the request to the next one.
func TestHelperKilledWhileItAsks(t *testing.T) {
	y := newEarlyYard(t, host.Tester)
	awake := y.stopManager(t)
	c := y.launch(t, y.user.Slice(), "asks-again")
	c.lives()
	name := strings.TrimSuffix(c.unit(), ".scope")
	if !escape.AwaitRequest(name[strings.LastIndex(name, "-")+1:]) {
		t.Fatal("no helper asks for a scope")
	}
	escape.KillHelperOf(c.guard)
	awake()
	c.awaitScope()
	if pids, err := escape.GroupPids(c.scope); err != nil || len(pids) > 0 {
		t.Errorf("in the scope's own group: %v, %v", pids, err)
	}
	c.ends()
}

// The manager has other numbers for the processes of another pid namespace: from there it gets no request.
func TestScopeFromAnotherPidNamespace(t *testing.T) {
	y := newEarlyYard(t, host.Tester)
	m := escape.NewMembers(t)
	site := y.site(t)
	own := site.Group("client")
	site.Command = func(args ...string) *exec.Cmd { return y.host.Command(host.Root, args...) } // which may make one
	uid := fmt.Sprint(y.user.UID)
	line := []string{"unshare", "--pid", "--fork", "--mount-proc", "--", "setpriv", "--reuid=" + uid, "--regid=" + uid, "--clear-groups", "--"}
	line = append(line, zoo(y.user, "numbers", m, "plain", "--eof-grace", "1m")...)
	c := awaitServer(t, site.NewClient(own, nil, line), m, y.user.Slice())
	if err := escape.AwaitNote(c.scope, "pid namespace", patience); err != nil {
		t.Error(err)
	}
	if pids, err := escape.GroupPids(c.scope); err != nil || len(pids) > 0 {
		t.Errorf("in the scope's own group: %v, %v", pids, err)
	}
	c.ends()
}

// stopManager stops the user's manager until awake is called, or the test has ended.
func (y *yard) stopManager(t *testing.T) (awake func()) {
	t.Helper()
	pids, err := escape.GroupPids(filepath.Join(filepath.Dir(y.user.Slice()), "init.scope"))
	if err != nil || len(pids) == 0 {
		t.Fatalf("the manager: %v, %v", pids, err)
	}
	manager, err := escape.OpenProcess(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		manager.Signal(unix.SIGCONT)
		manager.Close()
	})
	manager.Signal(unix.SIGSTOP)
	return func() { manager.Signal(unix.SIGCONT) }
}
