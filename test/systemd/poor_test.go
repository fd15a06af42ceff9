// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// verdict is what `run` makes of a host: the backend that it takes, and what it says to
// --require, which refuses tree; or what it says where it can't contain a server at all.
type verdict struct{ backend, says string }

// verdicts has every kind of host. What works is taken, and a server never runs
// uncontained.
var verdicts = map[string]verdict{
	"read-only cgroupfs":                    {"tree", "read-only file system"},
	"no cgroupfs":                           {"tree", "requires a cgroup2 mount"},
	"own cgroupfs":                          {backend: "cgroup"},
	"host's cgroupfs":                       {"tree", `which shows "/.." alone`},
	"own subtree only":                      {"tree", "which shows"},
	"cgroup v1":                             {"tree", "requires a cgroup2 mount"},
	"hybrid":                                {backend: "cgroup"},
	"fake root":                             {"tree", "is not delegated to us"},
	"unprivileged":                          {"tree", "is not delegated to us"},
	"delegated":                             {backend: "delegated"},
	"dead bus":                              {"tree", "connection refused"},
	"foreign bus":                           {"tree", "is not a directory of ours"},
	"hanging bus":                           {"tree", "i/o timeout"},
	"hanging system manager":                {backend: "cgroup"},
	"hidepid":                               {"tree", "permission denied"},
	"no /proc":                              {says: "/proc/self/cgroup"},
	"PID 1":                                 {backend: "cgroup"},
	"no reaper":                             {backend: "cgroup"},
	"no_new_privs":                          {backend: "cgroup"},
	"read-only root":                        {backend: "cgroup"},
	"8 files":                               {says: "too many open files"},
	"20 processes":                          {says: "(at most 20 are allowed)"},
	"clone3 ENOSYS":                         {backend: "cgroup"},
	"clone3 EPERM":                          {backend: "cgroup"},
	"pidfd_open ENOSYS":                     {says: "open pidfd: function not implemented"},
	"pidfd_open EPERM":                      {says: "open pidfd: operation not permitted"},
	"pidfd_send_signal ENOSYS":              {backend: "cgroup"},
	"pidfd_send_signal EPERM":               {backend: "cgroup"},
	"close_range ENOSYS":                    {backend: "cgroup"},
	"close_range EPERM":                     {backend: "cgroup"},
	"hanging bus and delegated":             {backend: "delegated"},
	"dead bus and delegated":                {backend: "delegated"},
	"clone3 EPERM as tester with managers":  {backend: "systemd-user"},
	"clone3 ENOSYS as tester with managers": {backend: "systemd-user"},
	"hidepid as tester with managers":       {backend: "systemd-user"},
	"clone3 EPERM with managers":            {backend: "systemd-system"},
}

func TestPoorHosts(t *testing.T) {
	kinds := append(host.Kinds(), host.HangingBus.And(host.Delegated), host.DeadBus.And(host.Delegated),
		host.Clone3Denied.As(host.Tester).WithManagers(), host.NoClone3.As(host.Tester).WithManagers(),
		host.Hidepid.As(host.Tester).WithManagers(), host.Clone3Denied.WithManagers())
	for i, k := range kinds {
		if i%3 != 0 && !escape.Full() {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			want, known := verdicts[k.Name]
			if !known {
				t.Fatal("nothing is expected of it")
			}
			if want.says != "" {
				c := host.Poor(t, k, mcpscope, "run", "--require", "--", "true")
				var said strings.Builder
				c.Stderr = &said
				_ = c.Run() // its status says it
				refuses(t, c.ProcessState.ExitCode(), said.String(), want.says)
			}
			c := host.Poor(t, k, mcpscope, "run", "--report", "fd:1", "--", "true")
			var out, said strings.Builder
			c.Stdout, c.Stderr = &out, &said
			err := c.Run()
			if want.backend == "" {
				refuses(t, c.ProcessState.ExitCode(), said.String(), want.says)
				return
			}
			var report struct {
				ID, Backend string
				Notes       []string
			}
			if decodeErr := json.Unmarshal([]byte(out.String()), &report); err != nil || decodeErr != nil || said.Len() > 0 {
				t.Fatalf("%v, %v; stdout: %s; stderr: %s", err, decodeErr, out.String(), said.String())
			}
			if report.Backend != want.backend && !unasked(k, report.Backend) {
				t.Errorf("backend %s, want %s", report.Backend, want.backend)
			}
			if notes := strings.Join(report.Notes, "\n"); want.backend == "tree" && !strings.Contains(notes, want.says) {
				t.Errorf("the report does not say why it is no better backend: %q", report.Notes)
			}
			for _, u := range []host.User{host.Root, host.Tester} {
				gone(t, u.Slice()+"/mcp-true-"+report.ID+".scope") // by systemd, a moment later
			}
		})
	}
}

// unasked: a server that ends before its manager is asked for the scope is in a directory of that, whether the manager hangs or not.
func unasked(k host.Kind, took string) bool {
	return hasKill(host.Root.Slice()) && k.Name == host.HangingManager.Name && took == backendOf(host.Root)
}

// refuses: status 125, one line, and at most one hint.
func refuses(t *testing.T, status int, said, want string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
	if status != 125 || !strings.HasPrefix(lines[0], "mcpscope: cannot contain ") || !strings.Contains(lines[0], want) {
		t.Errorf("status %d: %s", status, said)
	}
	if len(lines) > 2 || len(lines) == 2 && !strings.HasPrefix(lines[1], "mcpscope: hint: ") {
		t.Errorf("more than a line and a hint: %q", lines)
	}
}
