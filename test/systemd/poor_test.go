// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A verdict is mcpscope's result on a kind of host.
type verdict struct {
	backend string // that `run` takes and doctor names; "" where run refuses to start a server
	says    string // why: what run prints where it refuses, and notes in the report where it takes tree
	remedy  string // BACKEND: what doctor advises for one that does not work
}

// verdicts has every kind of host. The best backend that works is taken, and a server never runs uncontained.
var verdicts = map[string]verdict{
	"read-only cgroupfs":       {"tree", "read-only file system", "cgroup: writable-cgroups=true"},
	"read-only mcp.slice":      {"tree", "read-only file system", "cgroup: writable-cgroups=true"},
	"no cgroupfs":              {"tree", "no cgroup2 hierarchy", "cgroup: a cgroup2 mount"},
	"own cgroupfs":             {"cgroup", "", "systemd-system: boot with systemd"},
	"host's cgroupfs":          {"tree", "shows another part", "cgroup: --cgroupns=private"},
	"own subtree only":         {"tree", "shows another part", "cgroup: --cgroupns=private"},
	"cgroup v1":                {"tree", "no cgroup2 hierarchy", "cgroup: a cgroup2 mount"},
	"hybrid":                   {"cgroup", "", ""},
	"fake root":                {"tree", "is not delegated to us", "cgroup: root of a user namespace is not enough"},
	"unprivileged":             {"tree", "is not delegated to us", "delegated: chown 65533"},
	"delegated":                {"delegated", "", ""},
	"dead bus":                 {"tree", "connection refused", "systemd-user: systemctl restart user@65533.service"},
	"foreign bus":              {"tree", "is not a directory of ours", "systemd-user: user-runtime-dir@65533.service"},
	"hanging bus":              {"tree", "i/o timeout", "systemd-user: systemctl restart user@65533.service"},
	"hanging system manager":   {"cgroup", "", "systemd-system: systemctl is-system-running"},
	"hidepid":                  {"tree", "permission denied", ""},
	"no /proc":                 {"", "/proc/self/exe", ""},
	"PID 1":                    {"cgroup", "", ""},
	"no reaper":                {"cgroup", "", ""},
	"no_new_privs":             {"cgroup", "", ""},
	"read-only root":           {"cgroup", "", ""},
	"8 files":                  {"", "limit of open files is too low", "cgroup: ulimit -n"},
	"20 processes":             {"tree", "", ""},
	"clone3 ENOSYS":            {"cgroup", "", ""},
	"clone3 EPERM":             {"cgroup", "", ""},
	"pidfd_open ENOSYS":        {"", "open pidfd: function not implemented", "cgroup: let seccomp allow"},
	"pidfd_open EPERM":         {"", "open pidfd: operation not permitted", ""},
	"pidfd_send_signal ENOSYS": {"cgroup", "", ""},
	"pidfd_send_signal EPERM":  {"cgroup", "", ""},
	"no signals":               {"", "may not signal each other", "tree: apparmor=unconfined"},
	"close_range ENOSYS":       {"cgroup", "", ""},
	"close_range EPERM":        {"cgroup", "", ""},
	"execveat EPERM":           {"cgroup", "", ""},
	"filter of Codex":          {"cgroup", "", ""},
	"filter of Claude Code":    {"cgroup", "", ""},
	"filter of docker":         {"cgroup", "", ""},
	"filter of Codex as tester with managers":       {"tree", "operation not permitted", "systemd-user: in front of the sandbox"},
	"filter of Claude Code as tester with managers": {"tree", "operation not permitted", "systemd-user: in front of the sandbox"},
	"filter of docker as tester with managers":      {"systemd-user", "", ""},
	"hanging bus and delegated":                     {"delegated", "", ""},
	"dead bus and delegated":                        {"delegated", "", ""},
	"clone3 EPERM as tester with managers":          {"systemd-user", "", ""},
	"hidepid as tester with managers":               {"systemd-user", "", ""},
	"clone3 EPERM with managers":                    {"systemd-system", "", ""},
	"unprivileged with managers":                    {"tree", "is not delegated to us", "systemd-user: chown 65533"},
}

// On each kind of host run takes the best backend that works, or refuses, and doctor agrees.
func TestPoorHosts(t *testing.T) { tryPoorHosts(t, false) }

// TestPoorHostsThatHang are those whose managers do not answer, for 16 s each.
func TestPoorHostsThatHang(t *testing.T) { tryPoorHosts(t, true) }

func tryPoorHosts(t *testing.T, hang bool) {
	kinds := append(host.Kinds(), host.Unprivileged.WithManagers(),
		host.Clone3Denied.As(host.Tester).WithManagers(), host.Hidepid.As(host.Tester).WithManagers(), host.Clone3Denied.WithManagers())
	for _, k := range []host.Kind{host.CodexFilter, host.ClaudeFilter, host.DockerFilter} {
		kinds = append(kinds, k.As(host.Tester).WithManagers())
	}
	for _, k := range kinds {
		if strings.HasPrefix(k.Name, "hanging") != hang {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			want, known := verdicts[k.Name]
			if !known {
				t.Fatal("nothing is expected of it")
			}
			took := runs(t, k, want)
			if took != want.backend && !unasked(k, took) {
				t.Errorf("run takes %q, want %q", took, want.backend)
			}
			if !hang { // a gateway does not wait for a manager: it runs, and its log has the reason
				gatewaySaysSo(t, k)
			}
			d := diagnose(t, host.Poor(t, k, mcpscope, "doctor", "--json"))
			if d.Backend != want.backend && !unasked(k, took) {
				t.Errorf("doctor says %q, want %q", d.Backend, want.backend)
			}
			if backend, remedy, _ := strings.Cut(want.remedy, ": "); !strings.Contains(d.fix(backend), remedy) {
				t.Errorf("no remedy %q for %s: %+v", remedy, backend, d.Host.Backends)
			}
			if k.Name == host.NoReaper.Name && (d.Host.Init.Reaps || !d.advises("run --init")) {
				t.Errorf("PID 1 reaps: %v; problems: %+v", d.Host.Init.Reaps, d.Problems)
			}
		})
	}
}

// runs starts a server, and returns the backend that it got.
func runs(t *testing.T, k host.Kind, want verdict) string {
	t.Helper()
	c := host.Poor(t, k, mcpscope, "run", "--report", "fd:1", "--", "true")
	var out, said strings.Builder
	c.Stdout = &out
	c.Stderr = &said
	err := c.Run()
	if want.backend == "" { // status 125, one line, and at most one hint
		lines := strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
		if c.ProcessState.ExitCode() != 125 || !strings.HasPrefix(lines[0], "mcpscope: cannot contain ") || !strings.Contains(lines[0], want.says) {
			t.Errorf("%v: %s", err, said.String())
		}
		if len(lines) > 2 || len(lines) == 2 && !strings.HasPrefix(lines[1], "mcpscope: hint: ") {
			t.Errorf("more than a line and a hint: %q", lines)
		}
		return ""
	}
	var report struct {
		ID, Backend string
		Notes       []string
	}
	if decodeErr := json.Unmarshal([]byte(out.String()), &report); err != nil || decodeErr != nil || said.Len() > 0 {
		t.Fatalf("%v, %v; stdout: %s; stderr: %s", err, decodeErr, out.String(), said.String())
	}
	if !strings.Contains(strings.Join(report.Notes, "\n"), want.says) {
		t.Errorf("the report does not say why there is no better backend: %q", report.Notes)
	}
	for _, u := range []host.User{host.Root, host.Tester} {
		escape.WantNoServers(t, u.Slice(), "true", patience) // systemd removes the scope a moment later
	}
	return report.Backend
}

// gatewaySaysSo: a gateway that contains nothing, or has no cgroups for its servers, says so on stderr, however
// it is started.
func gatewaySaysSo(t *testing.T, k host.Kind) {
	t.Helper()
	const line = `true | /usr/bin/cat /proc/self/cgroup /proc/self/limits | cat; exit 5`
	c := host.Poor(t, k, mcpscope, "gateway", "--match", "/usr/bin/cat /proc*", "--", "sh", "-c", line)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if c.ProcessState.ExitCode() != 5 {
		t.Fatalf("the gateway: %v, stderr %q", err, said.String())
	}
	inGroup := strings.Contains(string(out), "/mcp-cat-")
	isTagged := regexp.MustCompile(`Max file locks +[0-9]`).Match(out)
	want := map[string]bool{
		"are NOT contained":             !inGroup && !isTagged,
		"are contained without cgroups": !inGroup && isTagged,
	}
	c = host.Poor(t, k, mcpscope, "gateway", "--", "true")
	var saidEarly strings.Builder
	c.Stderr = &saidEarly
	if err := c.Run(); err != nil {
		t.Errorf("a gateway without flags: %v, stderr %q", err, saidEarly.String())
	}
	for how, text := range map[string]string{"flags": said.String(), "no flags": saidEarly.String()} {
		for note, isWanted := range want {
			if strings.Contains(text, note) != isWanted {
				t.Errorf("with %s: in a group %v, tagged %v, and it says %q", how, inGroup, isTagged, text)
			}
		}
	}
}

// unasked: a server that ends before the request for its scope is in a directory of the manager, hung or not.
func unasked(k host.Kind, took string) bool {
	return k.Name == host.HangingManager.Name && took == backendOf(host.Root)
}
