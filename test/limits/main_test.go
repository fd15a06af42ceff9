// SPDX-License-Identifier: Apache-2.0

// Package limits tests what a server may use, on each backend. Limits hold where the kernel has
// controllers in cgroup2, which takes a virtual machine (test/vm); elsewhere they have to be
// refused, with the step that is missing.
package limits

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

var mcpscope = host.Shared + "/mcpscope"

// suite is the virtual machine's; elsewhere it is empty.
var suite = os.Getenv("VM_SUITE")

func TestMain(m *testing.M) {
	host.Main(m, host.Options{Users: true, Build: func(dir string) error {
		return escape.Build(dir, map[string][]string{"hungry": escape.Go("./hungry")})
	}})
}

// A backend is one way to start a server, by one user.
type backend struct {
	name string
	user host.User
	// wrap is the command that the client runs below.
	wrap []string
	// controllers are those that its groups have as a release is shipped, in a machine that has them,
	// or when prepare has run.
	controllers string
	prepare     func(*testing.T)
	owner       string // of a unit that hands its controllers down
}

// hybrid machines have their controllers in cgroup v1.
var hybrid = strings.HasSuffix(suite, "+hybrid")

func (b backend) has(controller string) bool {
	return suite != "" && !hybrid && strings.Contains(" "+b.controllers+" ", " "+controller+" ")
}

const all = "cpu io memory pids"

// backends are those of this machine.
func backends() []backend {
	delegated := backend{name: "delegated", user: host.Root,
		wrap: []string{"systemd-run", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"}}
	if strings.HasSuffix(suite, "+init") {
		return []backend{{name: "cgroup", user: host.Root, controllers: all, prepare: enableAtRoot},
			{name: "tree", user: host.Tester}}
	}
	return []backend{
		{name: "systemd-system", user: host.Root, controllers: all}, {name: "systemd-user",
			user: host.Tester, controllers: "cpu memory pids"},
		{name: "cgroup", user: host.Root}, delegated, {name: "tree", user: host.Tester},
	}
}

// ofSessions are backends, and units that hand their controllers down (DelegateSubgroup=, systemd 254). These
// get no further descriptors of the client, so they are for sessions alone.
func ofSessions() []backend {
	found := backends()
	if suite == "" || strings.HasPrefix(suite, "bookworm") || strings.HasSuffix(suite, "+init") {
		return found
	}
	for _, u := range []host.User{host.Root, host.Tester} {
		unit := []string{"systemd-run", "--pipe", "--wait", "--quiet", "--collect", "--property=User=" + u.Name,
			"--property=Delegate=yes", "--property=DelegateSubgroup=main", "--"}
		found = append(found, backend{
			name: "delegated", user: u, owner: u.Name, wrap: unit, controllers: all,
		})
	}
	return found
}

// journaled reports whether there is a journal, and controllers.
func journaled() bool { return suite != "" && !hybrid && !strings.HasSuffix(suite, "+init") }

// onEach runs a test on each backend that has the controllers. In a machine each of them has to
// be had by one at least.
func onEach(t *testing.T, test func(*testing.T, backend), controllers ...string) {
	t.Helper()
	on(t, backends(), test, controllers...)
}

func on(t *testing.T, backends []backend, test func(*testing.T, backend), controllers ...string) {
	t.Helper()
	for _, c := range controllers {
		if suite == "" || hybrid {
			bed.Require(t, bed.Controller(c))
		}
	}
	ran := false
	for _, b := range backends {
		lacks := func(c string) bool { return !b.has(c) }
		if !slices.ContainsFunc(controllers, lacks) {
			ran = true
			t.Run(b.name+b.owner, func(t *testing.T) {
				if b.prepare != nil {
					b.prepare(t)
				}
				test(t, b)
			})
		}
	}
	if !ran {
		t.Errorf("no backend has %q", controllers)
	}
}

// enableAtRoot enables controllers as an administrator would.
func enableAtRoot(t *testing.T) {
	t.Helper()
	root := "/sys/fs/cgroup/"
	each := func(sign, dir string) {
		for _, c := range strings.Fields(all) {
			if err := bed.Write(dir+"cgroup.subtree_control", sign+c); err != nil {
				t.Error(err)
			}
		}
	}
	each("+", root)
	t.Cleanup(func() { // of the inner ones first: mcpscope has handed them down
		escape.WantNoServers(t, root+"mcp.slice/0", "*", escape.Patience) // a gateway does not wait for its servers
		each("-", root+"mcp.slice/0/")
		each("-", root+"mcp.slice/")
		each("-", root)
	})
}

// withhold has systemd's mcp.slice hand nothing down: it does while there are scopes in it, and
// for as long after as a group of the backend cgroup has made use of that.
func withhold(t *testing.T) {
	t.Helper()
	if !journaled() {
		return
	}
	backends()[0].succeed(t, "run", "--backend", "systemd-system", "--", "true") // or there might be no such slice
	slice := "/sys/fs/cgroup/mcp.slice/"
	escape.WantNoServers(t, slice, "*", escape.Patience) // systemd does that in its own time
	escape.WantNoServers(t, slice+"0", "*", escape.Patience)
	for _, c := range strings.Fields(all) {
		_ = bed.Write(slice+"0/cgroup.subtree_control", "-"+c) // there may be none yet
		if err := bed.Write(slice+"cgroup.subtree_control", "-"+c); err != nil {
			t.Error(err)
		}
	}
}

// command is one of mcpscope's, run by the backend's user.
func (b backend) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return host.Current(t).Command(b.user, append(append(append([]string{}, b.wrap...), mcpscope), args...)...)
}

// group is a shell's own: its files hold the limits.
const group = `g=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); `

// A server is one `mcpscope run` of a shell script.
type server struct {
	*escape.Talk
	t      *testing.T
	report *os.File
}

// start starts a server of that name with limits.
func (b backend) start(t *testing.T, name string, flags []string, script string) *server {
	t.Helper()
	args := append([]string{"run", "--name", name, "--backend", b.name, "--eof-grace", "300ms",
		"--term-grace", "300ms", "--report", "fd:3"}, flags...)
	cmd := b.command(t, append(args, "--", "sh", "-c", script)...)
	report, theirs := bed.Pipe(t)
	cmd.ExtraFiles = []*os.File{theirs}
	s := &server{escape.StartTalk(t, cmd, cmd.Start), t, report}
	_ = theirs.Close() // it has it
	return s
}

// wait is for a server that ends by itself.
func (s *server) wait() syscall.WaitStatus {
	s.t.Helper()
	_ = s.Wait() // how, is returned
	return s.Cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// end closes stdin.
func (s *server) end() syscall.WaitStatus {
	s.t.Helper()
	_ = s.Stdin.Close() // whether it reads or not
	return s.wait()
}

// A report has the fields that these tests read.
type report struct {
	Name, Backend, Cause string
	ExitSignal           string `json:"exit_signal"`
	Limits               map[string]string
	OOMKills             int    `json:"oom_kills"`
	MemoryMax            uint64 `json:"memory_max_bytes"`
	MemoryPeak           uint64 `json:"memory_peak_bytes"`
	PIDsRefused          int    `json:"pids_refused"`
	PIDsMax              int    `json:"pids_max"`
	Notes                []string
}

// The report of a server that has ended.
func (s *server) told() report {
	s.t.Helper()
	var r report
	if err := json.NewDecoder(s.report).Decode(&r); err != nil {
		s.t.Fatalf("no report: %v; stderr: %s", err, s.Said())
	}
	return r
}

// succeed runs a command that must.
func (b backend) succeed(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, status := b.result(t, args...)
	if status != 0 || stderr != "" {
		t.Errorf("%q: status %d; stderr: %s", args, status, stderr)
	}
	return out
}

func (b backend) result(t *testing.T, args ...string) (out, stderr string, status int) {
	t.Helper()
	b.wrap = nil // an operator is not in the client's unit
	cmd := b.command(t, args...)
	var said, errors strings.Builder
	cmd.Stdout = &said
	cmd.Stderr = &errors
	_ = cmd.Run() // how, is returned
	return said.String(), errors.String(), cmd.ProcessState.ExitCode()
}
