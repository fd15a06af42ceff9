package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Where there can be no filter, what is looked for in PATH is a server's launcher from its first instruction on,
// or the program itself.
func TestShims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bin := t.TempDir()
	if err := os.Symlink(binaries.Zoo, filepath.Join(bin, "uvx")); err != nil {
		t.Fatal(err)
	}
	g := w.start([]string{"env", "PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), binaries.deny, "seccomp", binaries.mcpscope,
		"gateway", "--shims", "--backend", "cgroup", "--explain", w.explain, "--eof-grace", "200ms", "--term-grace", "200ms", "--", binaries.like})
	env, err := os.ReadFile(filepath.Join("/proc", itoa(g.PID), "environ"))
	dir, _, found := strings.Cut(strings.TrimPrefix(string(env), "PATH="), ":")
	if !found || err != nil || filepath.Base(dir) == "bin" {
		t.Fatalf("PATH begins with %q (%v)", dir, err)
	}
	s := &Server{Members: escape.NewMembers(t), Name: "a"}
	t.Cleanup(s.Kill)
	g.Tell("server a uvx --register %s double-fork", s.Address)
	g.Expect("server a")
	if err := s.UntilReady(escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(g.Stderr))
	}
	var id string
	if s.Main, id = s.Members.Main(); id == "" {
		t.Error("it was not run")
	}
	w.contained(s)
	g.Tell("ask a")
	if answer := g.Expect("answer a"); answer != "ping" {
		t.Errorf("it says %q", answer)
	}
	g.Tell("times 3 uvx --list")
	if rest := g.Expect("times"); !strings.HasSuffix(rest, " 0 <nil>") {
		t.Errorf("a program that is no server: %q", rest)
	}
	if all := escape.Servers(w.slice(), "*", "*"); len(all) != 1 {
		t.Errorf("groups: %q, want one", all)
	}
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	w.clean()
	if err := escape.AwaitRemoval(dir, escape.Patience); err != nil {
		t.Error(err)
	}
}
