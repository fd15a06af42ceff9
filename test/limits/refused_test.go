// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A refusal is a limit that a backend can't give.
type refusal struct {
	backend
	flag, value, file string
}

// refusals of this machine, as a release is shipped.
func refusals() []refusal {
	var found []refusal
	for _, b := range backends() {
		for _, i := range []int{0, 4, 5, 7} { // one of each controller
			f := flags[i]
			if b.name == "tree" || strings.HasSuffix(suite, "+init") || !b.has(f.controller) {
				found = append(found, refusal{b, f.flag, f.value, f.file})
			}
		}
	}
	return found
}

// A limit that can't be had starts nothing, and can't be set later.
func TestRefusals(t *testing.T) {
	all := refusals()
	for _, b := range []string{"cgroup", "tree"} {
		if !slices.ContainsFunc(all, func(r refusal) bool { return r.name == b }) {
			t.Errorf("%s refuses nothing", b)
		}
	}
	for _, r := range all {
		t.Run(r.name+"/"+r.file, func(t *testing.T) {
			if r.name == "cgroup" {
				withhold(t)
			}
			r.strictly(t)
			r.later(t)
		})
	}
}

func (r refusal) strictly(t *testing.T) {
	t.Helper()
	s := r.start(t, "refused", []string{r.flag, r.value}, "echo started")
	status := s.wait()
	said := s.Said()
	if status.ExitStatus() != 125 || !strings.HasPrefix(said, "mcpscope: cannot contain \"refused\": ") ||
		strings.Count(said, "\n") != 2 {
		t.Errorf("status %v; stderr: %s", status, said)
	}
	if !strings.HasSuffix(said, "\nmcpscope: hint: mcpscope doctor\n") {
		t.Errorf("stderr: %s", said)
	}
}

func (r refusal) later(t *testing.T) {
	t.Helper()
	s := r.start(t, "unlimited", nil, "echo started; read -r line")
	s.Hear("started")
	limit := r.file + "=" + strings.TrimPrefix(r.value, r.file+"=")
	if _, stderr, status := r.result(t, "set", "unlimited", limit); status != 1 ||
		!strings.Contains(stderr, "hint: mcpscope doctor") {
		t.Errorf("set %s: status %d; stderr: %s", limit, status, stderr)
	}
	s.end()
	if told := s.told(); len(told.Limits) > 0 {
		t.Errorf("%+v", told)
	}
	if said := s.Said(); said != "" {
		t.Errorf("stderr: %s", said)
	}
}

// The subtree_control of others stays as it is.
func TestForeignDirectoriesAreLeftAlone(t *testing.T) {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		file := dir + "/cgroup.subtree_control"
		before, err := os.ReadFile(file)
		if err != nil {
			continue // the hierarchy is at the other place
		}
		for _, b := range backends() {
			b.start(t, "left", []string{"--memory-max", "64M"}, "read -r line").end() // started, or refused
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%s was %q and is %q, %v", file, before, after, err)
		}
	}
}

// A gateway's servers have its limits each, those that it knows before they run from the first instruction;
// one whose limits can't be had is contained without them.
func TestGateway(t *testing.T) {
	const program = "/srv/limits-mcp"
	script := "#!/bin/sh\n" + group + "echo limited to $(cat $g/memory.max)\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(program) }) // it was made here
	for _, b := range backends() {
		if b.user.UID != host.Root.UID || b.name == "delegated" {
			continue // as the others
		}
		t.Run(b.name, func(t *testing.T) {
			if b.name == "cgroup" {
				withhold(t)
			}
			// A gateway does not wait for the groups of its servers.
			t.Cleanup(func() {
				escape.WantNoServers(t, host.Root.Slice(), "*", escape.Patience)
				escape.WantNoServers(t, host.Root.Slice()+"/0", "*", escape.Patience)
			})
			line := []string{"gateway", "--backend", b.name, "--eof-grace", "60s", "--memory-max", "64M",
				"--match", program, "--", "sh", "-c", "true | " + program + " | cat"}
			if !b.has("memory") || b.prepare != nil {
				if out, _, status := b.result(t, line...); status != 0 || !strings.HasPrefix(out, "limited to") {
					t.Errorf("without: status %d, %q", status, out)
				}
				if b.prepare == nil {
					return
				}
				b.prepare(t)
			}
			if out := b.succeed(t, line...); out != "limited to 67108864\n" {
				t.Errorf("it says %q", out)
			}
		})
	}
}
