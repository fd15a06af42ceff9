// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Each command does the same through both names: the same bytes, and the same status.
func TestBothNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, named("plain"), binaries.Zoo, "plain")
	help := w.run(w.mcpscope("help")).stdout
	tried := map[string]bool{}
	home := t.TempDir()
	both := func(args ...string) {
		t.Helper()
		tried[args[0]] = true
		var got [2]outcome
		for i, program := range []string{binaries.mcpscope, filepath.Join(filepath.Dir(binaries.mcpscope), "mcpscopectl")} {
			cmd := w.Command(append([]string{program}, args...)...)
			cmd.Env = append(cmd.Env, "HOME="+home)
			got[i] = w.run(cmd)
		}
		if got[0].status != got[1].status || steady(got[0].stdout) != steady(got[1].stdout) || got[0].stderr != got[1].stderr {
			t.Errorf("%q: mcpscope ends with %v, mcpscopectl with %v\n%s%s\nand\n%s%s", args, got[0].status, got[1].status,
				got[0].stdout, got[0].stderr, got[1].stdout, got[1].stderr)
		}
	}
	for line := range strings.Lines(help) {
		command := strings.Fields(line)
		if len(command) < 2 || !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") || command[0] == "mcpscope" {
			continue
		}
		both(command[0], "--help")
		both("help", command[0])
		both(command[0], "--no-such-flag")
	}
	id := w.list([]*server{s}, "ls")[0].ID
	client := fmt.Sprint(s.Own.PID) // trees of other tests are seen in every world
	for _, args := range [][]string{
		{"run", "--backend", "cgroup", "--", "sh", "-c", "echo out; echo err >&2; exit 7"}, {"run", "--backend", "cgroup", "--", "sh", "-c", "kill -KILL $$"},
		{"run", "nosuch"}, {"gateway", "--", "sh", "-c", "echo out; echo err >&2; exit 7"}, {"ls", "--format", "{{.ID}} {{.Name}} {{.Backend}}", "--client", client}, {"ls", "-q", "--client", client}, {"ls", "--json", "--client", client}, {"inspect", "nobody"}, {"top"},
		{"stop"}, {"stop", "nobody"}, {"freeze", id}, {"thaw", id}, {"set", id, "pids.max=100"}, {"set", id, "nonsense=1"}, {"wait", "nobody"}, {"events"}, {"logs", "nobody"},
		{"sweep", "--dry-run"}, {"status"}, {"wrap"}, {"unwrap", "--all"}, {"config", "show", "x"}, {"config", "check"}, {"units"}, {"version"},
		{"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"help"}, {"nonsense"}, {"restart"}, {"--help"}, {"--version"}, {"__complete", "ru"},
		{"metrics", "--listen", "x"}, {"doctor", "x"},
	} {
		both(args...)
	}
	for line := range strings.Lines(help) {
		if command := strings.Fields(line); len(command) > 1 && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") && command[0] != "mcpscope" && !tried[command[0]] {
			t.Errorf("%s is not tried", command[0])
		}
	}
	s.Tell("close")
	s.dead(escape.Patience)
}

// steady leaves out what changes from one look to the next: ages, and CPU that was used.
func steady(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"age_seconds"`) || strings.Contains(line, `"cpu_seconds"`) {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) > 6 && strings.Contains(line, "client[") {
			fields[3], fields[5] = "age", "cpu"
			line = strings.Join(fields, " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// In an image that has nothing but the runner, servers run, and other commands say what is missing.
func TestRunnerInAnEmptyImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"mcpscope": binaries.mcpscope, "server": binaries.Zoo} { // both are static
		if out, err := exec.Command("cp", "-L", from, filepath.Join(root, to)).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
	for _, dir := range []string{"proc", "sys", "dev"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	// a mount namespace of its own: what is mounted in it goes with it
	inside := `mount --make-rprivate / && mount --rbind /proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --bind /dev/null "$0/dev/null" && exec chroot "$0" "$@"`
	in := func(args ...string) *exec.Cmd {
		return w.Command(append([]string{"unshare", "--mount", "sh", "-c", inside, root, "/mcpscope"}, args...)...)
	}
	m := escape.NewMembers(t)
	cmd := in("run", "--", "/server", "--register", m.Address, "plain")
	c := w.NewClient(w.Unique("client"), []string{"--group"}, cmd.Args)
	if err := m.UntilReady(escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
	}
	c.Tell("signal %d", unix.SIGTERM)
	c.Status(escape.Patience)
	if n := m.UntilDead(escape.Patience); n > 0 {
		t.Errorf("%d members left", n)
	}
	for _, command := range [][]string{{"ls"}, {"doctor"}, {"gateway", "--", "/server"}} {
		o := w.run(in(command...))
		want := "mcpscope: cannot " + command[0] + ": mcpscopectl is not installed: there is no /mcpscopectl, and no /libexec/mcpscope/mcpscopectl\n"
		if o.status.ExitStatus() != 1 || o.stdout != "" || !strings.HasPrefix(o.stderr, want) {
			t.Errorf("%q: %v, %q; stderr: %s", command, o.status, o.stdout, o.stderr)
		}
	}
	if o := w.run(in("help")); o.status != 0 || !strings.Contains(o.stdout, "mcpscope run --") || !strings.Contains(o.stdout, "there is no /mcpscopectl") {
		t.Errorf("%v, %q; stderr: %s", o.status, o.stdout, o.stderr)
	}
	w.clean()
}

// Programs of two versions say so.
func TestVersionsDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	const linked = "-X github.com/mcpscope/mcpscope/internal/cli.commit=0123abcd -X github.com/mcpscope/mcpscope/internal/cli.release="
	for program, version := range map[string]string{"mcpscope": "v0.9.0", "mcpscopectl": "v1.0.0"} {
		if out, err := exec.Command("go", "build", "-ldflags", linked+version, "-o", dir, "../../cmd/"+program).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	o := w.run(w.Command(filepath.Join(dir, "mcpscope"), "version"))
	if o.status != 0 || !strings.HasPrefix(o.stdout, "mcpscope v0.9.0 (commit 0123abcd, go1.") || !strings.Contains(o.stdout, "\nmcpscopectl v1.0.0 (commit 0123abcd, go1.") || !strings.Contains(o.stderr, "different versions") {
		t.Errorf("%v, %q; stderr: %s", o.status, o.stdout, o.stderr)
	}
	if o := w.run(w.Command(filepath.Join(dir, "mcpscope"), "doctor")); !strings.Contains(o.stdout, "mcpscope is version v0.9.0, and mcpscopectl beside it v1.0.0: install both of one version\n") {
		t.Errorf("%v, %q; stderr: %s", o.status, o.stdout, o.stderr)
	}
}
