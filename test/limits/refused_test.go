// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

// A refusal is a limit that a backend can't give, and what is to be said of it.
type refusal struct {
	backend
	flag, value, file string
	step              string
}

// refusals of this machine, as a release is shipped.
func refusals() []refusal {
	var found []refusal
	for _, b := range backends() {
		seen := map[string]bool{}
		for _, f := range flags {
			if seen[f.controller] {
				continue
			}
			seen[f.controller] = true
			r := refusal{b, f.flag, f.value, f.file, ""}
			switch {
			case b.name == "tree":
				r.step = "mcpscope doctor"
			case strings.HasSuffix(suite, "+init"):
				r.step = "echo +" + f.controller + " > /sys/fs/cgroup/cgroup.subtree_control"
			case b.has(f.controller):
				continue
			case hybrid:
				r.step = "boot with systemd.unified_cgroup_hierarchy=1"
			case suite == "":
				r.step = "it is for whoever made this container to give it " + f.controller // as test/host is one
			case b.name == "delegated":
				r.step = "limit the whole unit (systemctl set-property run-"
			case b.name == "cgroup":
				r.step = "--backend systemd-system"
			default:
				r.step = "Delegate="
			}
			found = append(found, r)
		}
	}
	return found
}

// A limit that can't be had starts nothing, and the error says what is missing; where less will do
// too the server runs, and its report says the same.
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
			r.loosely(t)
		})
	}
}

// Where auto is left with a tree, it says why there is nothing better.
func TestNothingToLimit(t *testing.T) {
	s := backend{name: "auto", user: host.NoLinger}.start(t, "refused", []string{"--memory-max", "64M"}, "echo started")
	status := s.wait()
	said := s.Said()
	if status.ExitStatus() != 125 || !strings.Contains(said, ": no backend works here: systemd-user: ") || !strings.Contains(said, "; tree: the backend tree has no group that could be limited") {
		t.Errorf("status %v; stderr: %s", status, said)
	}
}

func (r refusal) strictly(t *testing.T) {
	t.Helper()
	s := r.start(t, "refused", []string{r.flag, r.value}, "echo started")
	status := s.wait()
	said := s.Said()
	if status.ExitStatus() != 125 || !strings.HasPrefix(said, "mcpscope: cannot contain \"refused\": ") || strings.Count(said, "\n") != 2 {
		t.Errorf("status %v; stderr: %s", status, said)
	}
	if _, hint, _ := strings.Cut(said, "\nmcpscope: hint: "); !strings.Contains(hint, r.step) {
		t.Errorf("stderr: %s\nwant %q", said, r.step)
	}
	if line, _ := s.Out.ReadString('\n'); line != "" {
		t.Errorf("the server says %q", line)
	}
}

func (r refusal) loosely(t *testing.T) {
	t.Helper()
	s := r.start(t, "tolerated", []string{r.flag, r.value, "--limits", "best-effort"}, "echo started; read -r line")
	s.Hear("started")
	note := func(text string) bool {
		return strings.Contains(text, "not limited: ") && strings.Contains(text, r.step)
	}
	if out := r.succeed(t, "inspect", "tolerated"); !note(out) {
		t.Errorf("inspect says %s", out)
	}
	limit := r.file + "=" + strings.TrimPrefix(r.value, r.file+"=")
	if _, stderr, status := r.result(t, "set", "tolerated", limit); status != 1 || !strings.Contains(stderr, r.step) {
		t.Errorf("set %s: status %d; stderr: %s", limit, status, stderr)
	}
	s.end()
	if told := s.told(); len(told.Limits) > 0 || !slices.ContainsFunc(told.Notes, note) {
		t.Errorf("%+v", told)
	}
	if said := s.Said(); said != "" {
		t.Errorf("stderr: %s", said)
	}
}

// What the hint says for the user manager is enough.
func TestStepOfAUserManager(t *testing.T) {
	if !journaled() {
		return // there is no controller that could be delegated
	}
	b := backend{name: "systemd-user", user: host.Tester}
	s := b.start(t, "before", []string{"--io-weight", "70"}, "echo started")
	if status := s.wait(); status.ExitStatus() != 125 {
		t.Fatalf("io is delegated already: %v", status)
	}
	_, hint, _ := strings.Cut(s.Said(), "[Service] and ")
	setting, rest, _ := strings.Cut(hint, ", and then sudo ")
	restart, _, _ := strings.Cut(rest, ",")
	const dir = "/etc/systemd/system/user@.service.d"
	again := func() {
		for _, command := range []string{"systemctl daemon-reload", restart} {
			// systemd 247 may stop /run/user's unit as unneeded just when the manager needs it again
			for tries := 3; ; tries-- {
				out, err := exec.Command("sh", "-c", command).CombinedOutput()
				if err == nil {
					break
				}
				t.Logf("%s: %v: %s", command, err, out)
				if tries == 1 {
					t.Fail()
					break
				}
			}
		}
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		again()
	})
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/limits-test.conf", []byte("[Service]\n"+setting+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	again()
	s = b.start(t, "after", []string{"--io-weight", "70", "--pids-max", "50"}, group+`echo $(cat $g/io.weight $g/pids.max); read -r line`)
	s.Hear("default 70 50")
	s.end()
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
			s := b.start(t, "left", []string{"--memory-max", "64M", "--limits", "best-effort"}, "read -r line")
			s.end()
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%s was %q and is %q, %v", file, before, after, err)
		}
	}
}
