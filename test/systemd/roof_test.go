// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// guest is the user of all clients here. It does not linger: its manager ends with the last session.
var guest = host.NoLinger

// A roof is where clients of guest are, whose manager runs meanwhile.
type roof struct {
	name string
	// enter returns what prepares a command there, and a function to call when all commands have started.
	enter func(t *testing.T) (command func(argv ...string) *exec.Cmd, started func())
	// group is a part of the path of each server: of its group, or, for the backend tree, of the client.
	group string
	// remedy is on the gateway's stderr, where servers have no groups.
	remedy string
	// pins: the manager runs as long as there are clients.
	pins bool
	// ends are the events that end the clients.
	ends string
}

const (
	inManager = "/user@1001.service/mcp.slice/mcp-"
	inSystem  = "/system.slice/"
)

var roofs = []roof{
	{
		name: "service", enter: inSystemService("User=nolinger", "Delegate=yes"),
		group: ".service/mcp-",
	},
	{
		name: "service without Delegate=", enter: inSystemService("User=nolinger"),
		group: inSystem, remedy: "[Service] and Delegate=yes",
	},
	{
		name: "cron without a session", enter: byDaemon,
		group: inSystem, remedy: "systemd-run --uid=1001 --property=Delegate=yes",
	},
	{
		name: "su from a session of root", enter: bySu,
		group: "/user-0.slice/session-", remedy: "systemd-run --uid=1001 --property=Delegate=yes",
	},
	{
		name: "session", enter: inSession(false),
		group: inManager, pins: true, ends: "terminate-user",
	},
	{
		name: "tmux that outlives its session", enter: inSession(true),
		group: inManager, pins: true, ends: "terminate-user",
	},
	{
		name: "cron with a session", enter: inSystemService("User=nolinger", "PAMName=login"),
		group: inManager, pins: true, ends: "terminate-user",
	},
	{
		name: "user service", enter: inUserService,
		group: inManager, ends: "logout, terminate-user",
	},
}

// inSystemService enters a system service for each command.
func inSystemService(properties ...string) func(*testing.T) (func(...string) *exec.Cmd, func()) {
	return func(t *testing.T) (func(...string) *exec.Cmd, func()) {
		return func(argv ...string) *exec.Cmd { return transient(t, host.Root, properties, argv) }, func() {}
	}
}

var transients int

// transient prepares a service with the stdin, stdout and stderr of the caller.
func transient(t *testing.T, manager host.User, properties, argv []string) *exec.Cmd {
	t.Helper()
	transients++
	unit := fmt.Sprintf("roof-%d.service", transients)
	line := []string{"--pipe", "--wait", "--quiet", "--collect", "--unit=" + unit}
	for _, p := range properties {
		line = append(line, "--property="+p)
	}
	t.Cleanup(func() {
		if manager == host.Root { // the other manager has ended
			host.StopUnits(t, manager, unit)
		}
	})
	return host.Current(t).Manage(manager, "systemd-run", append(append(line, "--"), argv...)...)
}

// byDaemon is a service of root, whose process starts programs of users.
func byDaemon(t *testing.T) (command func(argv ...string) *exec.Cmd, started func()) {
	return func(argv ...string) *exec.Cmd {
		const daemon = `HOME=$$0 setpriv --reuid=1001 --regid=1001 --clear-groups "$$@"; exit`
		return transient(t, host.Root, nil, append([]string{"sh", "-c", daemon, guest.Home}, argv...))
	}, func() {}
}

// bySu is a program that has got guest's ids in a session of root.
func bySu(t *testing.T) (command func(argv ...string) *exec.Cmd, started func()) {
	s := host.Current(t).Login(t, host.Root)
	return func(argv ...string) *exec.Cmd {
		ids := []string{"env", "HOME=" + guest.Home, "setpriv", "--reuid=1001", "--regid=1001", "--clear-groups", "--"}
		return s.Command(append(ids, argv...)...)
	}, func() {}
}

// inSession enters a session of guest, which ends when all has started, if it is left.
func inSession(leave bool) func(*testing.T) (func(...string) *exec.Cmd, func()) {
	return func(t *testing.T) (func(...string) *exec.Cmd, func()) {
		s := host.Current(t).Login(t, guest)
		return func(argv ...string) *exec.Cmd { return s.Command(argv...) }, func() {
			if !leave {
				return
			}
			if err := s.Logout(); err != nil {
				t.Error(err)
			}
		}
	}
}

func inUserService(t *testing.T) (command func(argv ...string) *exec.Cmd, started func()) {
	return func(argv ...string) *exec.Cmd { return transient(t, guest, nil, argv) }, func() {}
}

// tenants are a gateway and a client of mcpscope run below a roof, with a server each.
type tenants struct {
	t        *testing.T
	roof     roof
	gateway  *gateway.Gateway
	ofGate   *gateway.Server
	client   *escape.Client
	ofClient *escape.Members
}

func (r roof) settle(t *testing.T) *tenants {
	t.Helper()
	v := &tenants{t: t, roof: r, ofClient: escape.NewMembers(t)}
	command, started := r.enter(t)
	explain := filepath.Join(host.Directory(t, guest), "explain")
	cmd := command(mcpscope, "gateway", "--match", "zoo", "--explain", explain, "--", host.Shared+"/like", "gateway")
	stderr := escape.MemoryFile(t)
	cmd.Stderr = stderr
	in, out := escape.StartPiped(t, cmd, cmd.Start)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
	v.gateway = gateway.Attach(t, in, out, stderr)
	v.gateway.Explain = explain
	v.ofGate = v.gateway.Server(programs, "one", "setsid")
	line := append([]string{programs.Client, "--group", "--"}, zoo(guest, "two", v.ofClient, "setsid")...)
	cmd = command(line...)
	v.client = escape.StartClient(t, cmd, cmd.Start)
	if err := v.ofClient.UntilReady(patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(v.client.Stderr))
	}
	t.Cleanup(v.ofClient.Kill) // of a test that has failed
	started()
	return v
}

// wantGroups fails the test unless the servers are where the roof has them, and that is said.
func (v *tenants) wantGroups() {
	v.t.Helper()
	main, _ := v.ofClient.Main()
	for of, pid := range map[string]int{"the gateway": v.ofGate.Main.PID, "run": main.PID} {
		path, err := bed.ProcessPath(pid)
		isTree := !strings.Contains(path, "/mcp-")
		if err != nil || !strings.Contains(path, v.roof.group) || isTree != (v.roof.remedy != "") {
			v.t.Errorf("the server of %s is in %s (%v)", of, path, err)
		}
	}
	said := escape.Contents(v.gateway.Stderr)
	if !strings.Contains(said, v.roof.remedy) || strings.Contains(said, "weaker") != (v.roof.remedy != "") {
		v.t.Errorf("the gateway says %q", said)
	}
	if said := escape.Contents(v.client.Stderr); said != "" {
		v.t.Errorf("run says %q", said)
	}
}

// live fails the test unless the servers answer, and the gateway can execute programs and have another server.
func (v *tenants) live() {
	v.t.Helper()
	v.gateway.Answers("one")
	v.gateway.Tell("times 1 /bin/true")
	if got := v.gateway.Expect("times"); strings.Contains(got, "function not implemented") {
		v.t.Errorf("a program below the gateway: %q", got)
	}
	v.gateway.Server(programs, "next", "setsid")
	v.gateway.Answers("next")
	if !v.client.Lives("still there?") {
		v.t.Errorf("the server of run does not answer: %q", v.client.Lines())
	}
}

// wantEnded fails the test unless the servers have ended.
func (v *tenants) wantEnded() {
	v.t.Helper()
	v.ofGate.WantDead(v.t)
	v.ofClient.WantDead(v.t)
}

// wantGone fails the test unless nothing is left of servers, and of mcpscope.
func (v *tenants) wantGone() {
	v.t.Helper()
	v.wantEnded()
	var left []string
	if !pace.Eventually(patience, func() bool { left = guestsOfMcpscope(); return len(left) == 0 }) {
		v.t.Errorf("left are %q", left)
	}
}

// guestsOfMcpscope describes the processes of guest that run its servers.
func guestsOfMcpscope() (all []string) {
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range found {
		comm, _ := os.ReadFile(dir + "/comm")     // none, if it has exited
		status, _ := os.ReadFile(dir + "/status") // the directory is root's for a guard
		isOurs := false
		for _, prefix := range []string{"mcpscope", "guard-", "helper-", "zoo"} {
			isOurs = isOurs || strings.HasPrefix(string(comm), prefix)
		}
		if isOurs && strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", guest.UID)) {
			all = append(all, fmt.Sprintf("%s %s", filepath.Base(dir), strings.TrimSpace(string(comm))))
		}
	}
	return all
}

// A server lives as long as the surroundings of its client. What the end of a user's sessions does not end is in no
// group of the user's manager, though that is within reach.
func TestRoof(t *testing.T) {
	t.Parallel() // with tests of other users than guest
	eachRoof(t, "terminate-user")
}

// TestRoofWhileUsersLogInAndOut has the ends of other sessions of the user.
func TestRoofWhileUsersLogInAndOut(t *testing.T) { eachRoof(t, "login", "logout") }

func eachRoof(t *testing.T, events ...string) {
	for _, r := range roofs {
		for _, event := range events {
			t.Run(r.name+"/"+event, func(t *testing.T) {
				awaitNoManager(t)                        // of the case before
				other := host.Current(t).Login(t, guest) // so the manager runs
				v := r.settle(t)
				v.wantGroups()
				v.await(event, other)
				if strings.Contains(r.ends, event) {
					v.wantEnded()
				} else {
					v.live()
				}
				// systemd 252 terminates no session that its user has left
				v.gateway.Own.Signal(unix.SIGKILL)
				v.client.Own.Signal(unix.SIGKILL)
				v.wantGone()
			})
		}
	}
}

// awaitNoManager waits until guest has neither a manager nor its directories.
func awaitNoManager(t *testing.T) {
	t.Helper()
	isGone := func() bool {
		_, errGroup := os.Stat(filepath.Dir(guest.Slice()))
		_, errDir := os.Stat(guest.RuntimeDir())
		return errGroup != nil && errDir != nil
	}
	if !pace.Eventually(patience, isGone) {
		t.Fatalf("%s has a manager", guest.Name)
	}
}

// await has an event happen, and waits until the user's manager has ended if nothing keeps it.
func (v *tenants) await(event string, other *host.Session) {
	v.t.Helper()
	h := host.Current(v.t)
	var err error
	endsManager := false
	switch event {
	case "login":
		err = h.Login(v.t, guest).Logout()
	case "logout":
		err = other.Logout()
		endsManager = !v.roof.pins
	case "terminate-user":
		host.Must(v.t, h.Command(host.Root, "loginctl", "terminate-user", guest.Name))
		endsManager = true
	}
	if err == nil && endsManager {
		err = escape.AwaitRemoval(filepath.Dir(guest.Slice()), patience)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}
