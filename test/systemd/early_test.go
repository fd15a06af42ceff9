// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// early is a server that nobody has asked a backend for by name. It echoes lines.
type early struct {
	*escape.Client
	site  *escape.Site
	group string
}

// early starts one in a unit of the user's manager: below a login's session nothing can be made in the manager's slice.
func (y *yard) early(t *testing.T, name string, flags ...string) *early {
	t.Helper()
	e := &early{site: y.site(t)}
	line := append([]string{mcpscope, "run", "--name", name}, flags...)
	e.Client = e.site.NewClient(e.site.Group("client"), nil, append(line, "--", programs.Zoo, "plain"))
	return e
}

// running waits until it answers, and says in which directory it is.
func (e *early) running(t *testing.T, slice, name string) {
	t.Helper()
	if !e.Lives("hello") {
		t.Fatalf("it does not answer: %q; stderr: %s", e.Lines(), escape.Contents(e.Stderr))
	}
	found := escape.Servers(slice, name, "*.scope")
	if len(found) != 1 {
		t.Fatalf("%d groups of %s in %s", len(found), name, slice)
	}
	e.group = found[0]
}

// ends closes its stdin. It has to end as it would without a scope.
func (e *early) ends(t *testing.T) {
	t.Helper()
	e.Tell("close")
	if status := e.Status(patience); status != "exit 0" {
		t.Errorf("it ended with %q; stderr: %s", status, escape.Contents(e.Stderr))
	}
	gone(t, e.group)
}

// known tells what the manager says of the scope.
func (e *early) known(t *testing.T, y *yard, property string) string {
	t.Helper()
	out, err := y.host.Manage(y.user, "systemctl", "show", "--value", "--property="+property, filepath.Base(e.group)).CombinedOutput()
	if err != nil {
		t.Fatalf("show %s: %v: %s", property, err, out)
	}
	return strings.TrimSpace(string(out))
}

// newEarlyYard is one whose slice is there. It skips where the supervisor is born before the server anyway.
func newEarlyYard(t *testing.T, u host.User) *yard {
	t.Helper()
	y := newYard(t, u)
	_ = y.refused(t) // makes the slice
	if !hasKill(u.Slice()) {
		t.Skip("needs cgroup.kill, Linux 5.14")
	}
	return y
}

// hasKill tells whether there is the group, and cgroup.kill in it.
func hasKill(group string) bool {
	_, err := os.Stat(filepath.Join(group, "cgroup.kill"))
	return err == nil
}

// The manager takes a directory over in which a server runs, and has then what it has of a scope that it has made.
func TestScopeIsTakenOver(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		y := newEarlyYard(t, u)
		e := y.early(t, "taken-over")
		e.running(t, u.Slice(), "taken-over")
		if err := escape.AwaitScope(e.group, patience); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Getxattr(filepath.Join(e.group, "payload"), "user.mcpscope.scope", nil); err != nil {
			t.Errorf("systemd has made the directory: %v: then this tests nothing", err)
		}
		for property, want := range map[string]string{
			"ActiveState": "active", "Delegate": "yes", "Slice": "mcp.slice", "KillSignal": "28", "BindsTo": filepath.Base(y.dir),
			"ControlGroup": strings.TrimPrefix(e.group, "/sys/fs/cgroup"),
		} {
			if got := e.known(t, y, property); got != want {
				t.Errorf("%s is %q, want %q", property, got, want)
			}
		}
		if pids, err := os.ReadFile(filepath.Join(e.group, "cgroup.procs")); len(pids) > 0 || err != nil {
			t.Errorf("in the scope's own group: %q, %v", pids, err)
		}
		e.ends(t)
	})
}

// A manager that refuses to take the directory over leaves a server that runs, and a note.
func TestManagerRefusesAScope(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		y := newEarlyYard(t, u)
		slice := y.maskedSlice(t)
		e := y.early(t, "refused", "--slice", "masked.slice")
		e.running(t, slice, "refused")
		if err := escape.AwaitNote(e.group, "systemd does not know of", patience); err != nil {
			t.Error(err)
		}
		out, err := e.site.Command(mcpscope, "ls", "--json").CombinedOutput()
		var all struct {
			Servers []struct{ Name, Unit, Backend string }
		}
		if err != nil || json.Unmarshal(out, &all) != nil || len(all.Servers) == 0 {
			t.Fatalf("ls: %v: %s", err, out)
		}
		for _, s := range all.Servers {
			if s.Name == "refused" && (s.Unit != "" || s.Backend != backendOf(u)) {
				t.Errorf("listed as %+v", s)
			}
		}
		if !e.Lives("again") {
			t.Error("it does not answer any more")
		}
		e.ends(t)
	})
}

// maskedSlice makes the directory of a slice that the manager refuses to start.
func (y *yard) maskedSlice(t *testing.T) string {
	t.Helper()
	slice := filepath.Join(filepath.Dir(y.user.Slice()), "masked.slice")
	if err := os.Mkdir(slice, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Destroy(slice); err != nil {
			t.Error(err)
		}
	})
	for _, file := range []string{"", "cgroup.kill", "cgroup.procs"} {
		if err := os.Chown(filepath.Join(slice, file), y.user.UID, y.user.UID); err != nil {
			t.Fatal(err)
		}
	}
	y.control(t, "mask", "--runtime", "masked.slice")
	t.Cleanup(func() { y.control(t, "unmask", "--runtime", "masked.slice") })
	return slice
}

// A server whose client is in a scope that the manager has refused is bound to nothing: its own scope would be stopped at once.
func TestClientIsInAScopeThatNoManagerKnows(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		y := newEarlyYard(t, u)
		y.maskedSlice(t)
		e := &early{site: y.site(t)}
		e.Client = e.site.NewClient(e.site.Group("client"), nil, []string{mcpscope, "run", "--name", "outer", "--slice", "masked.slice", "--",
			mcpscope, "run", "--name", "inner", "--backend", backendOf(u), "--", programs.Zoo, "plain"})
		e.running(t, u.Slice(), "inner")
		if bound := e.known(t, y, "BindsTo"); bound != "" {
			t.Errorf("its scope is bound to %q", bound)
		}
		if !e.Lives("again") {
			t.Error("it does not answer any more")
		}
		e.ends(t)
	})
}

// A manager that does not answer does not keep a server from answering, nor from ending.
func TestManagerHangs(t *testing.T) {
	u := host.Tester
	y := newEarlyYard(t, u)
	awake := y.stopManager(t)
	first := y.early(t, "hangs")
	first.running(t, u.Slice(), "hangs")
	first.ends(t)
	second := y.early(t, "answers-late")
	second.running(t, u.Slice(), "answers-late")
	if escape.Full() && second.Server.Ended(12*time.Second) { // longer than a scope is waited for that a server needs to start
		t.Fatal("the server has ended")
	}
	awake()
	if err := escape.AwaitScope(second.group, patience); err != nil {
		t.Error(err)
	}
	second.ends(t)
}

// A launcher that is killed before its request, or before the manager's answer, leaves no directory: the manager refuses a scope for a
// process that has ended.
func TestLauncherKilledWhileItAsks(t *testing.T) {
	y := newEarlyYard(t, host.Tester)
	for _, state := range []string{"unasked", "asked"} {
		t.Run(state, func(t *testing.T) {
			awake := y.stopManager(t)
			e := y.early(t, state)
			e.running(t, y.user.Slice(), state)
			if err := unix.Setxattr(filepath.Join(e.group, "payload"), "user.mcpscope.scope", []byte(state), 0); err != nil {
				t.Fatal(err)
			}
			e.Server.Signal(unix.SIGKILL)
			awake()
			gone(t, e.group)
		})
	}
}

// A server that stops the process which its manager moves does not keep the launcher from returning, nor the scope in the manager's list.
func TestServerStopsWhoIsMoved(t *testing.T) {
	y := newEarlyYard(t, host.Tester)
	awake := y.stopManager(t)
	e := y.early(t, "stops")
	e.running(t, y.user.Slice(), "stops")
	pids, err := escape.GroupPids(e.group)
	for deadline := pace.Now().Add(patience); len(pids) == 0 && err == nil && pace.Until(deadline) > 0; pids, err = escape.GroupPids(e.group) {
		escape.PollFor(time.Millisecond) // the group has had members before, so no event tells of one more
	}
	if err != nil || len(pids) != 1 {
		t.Fatalf("in the scope's own group: %v, %v", pids, err)
	}
	moved, err := escape.OpenProcess(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Close()
	moved.Signal(unix.SIGSTOP)
	awake()
	if err := escape.AwaitScope(e.group, patience); err != nil {
		t.Error(err)
	}
	e.ends(t)
	if !moved.Ended(patience) {
		t.Error("who was moved is left")
	}
}

// The manager has other numbers for the processes of another pid namespace: it is asked for nothing from there.
func TestScopeFromAnotherPidNamespace(t *testing.T) {
	y := newEarlyYard(t, host.Tester)
	e := &early{site: y.site(t)}
	own := e.site.Group("client")
	e.site.Command = func(args ...string) *exec.Cmd { return y.host.Command(host.Root, args...) } // who may make one
	uid := fmt.Sprint(y.user.UID)
	e.Client = e.site.NewClient(own, nil, []string{"unshare", "--pid", "--fork", "--mount-proc", "--", "setpriv", "--reuid=" + uid, "--regid=" + uid, "--clear-groups", "--",
		mcpscope, "run", "--name", "numbers", "--", programs.Zoo, "plain"})
	e.running(t, y.user.Slice(), "numbers")
	if err := escape.AwaitNote(e.group, "pid namespace", patience); err != nil {
		t.Error(err)
	}
	if pids, err := escape.GroupPids(e.group); err != nil || len(pids) > 0 {
		t.Errorf("in the scope's own group: %v, %v", pids, err)
	}
	e.ends(t)
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
