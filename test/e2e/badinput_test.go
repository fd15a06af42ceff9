// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// Statuses of mcpscope's own.
const (
	failed      = 125
	notRunnable = 126
	notFound    = 127
	misused     = 2
)

// checkRefusal: the status, one line on stderr, nothing on stdout, nothing left.
func checkRefusal(t *testing.T, o outcome, want int) {
	t.Helper()
	if !o.status.Exited() || o.status.ExitStatus() != want {
		t.Errorf("ended with %v, want exit %d; stderr: %s", o.status, want, o.stderr)
	}
	if o.stdout != "" {
		t.Errorf("stdout is %q", o.stdout)
	}
	wantComplaint(t, o.stderr)
}

// wantComplaint: one line of ours, and at most one hint.
func wantComplaint(t *testing.T, stderr string) {
	t.Helper()
	lines := strings.SplitAfter(stderr, "\n")
	lines = lines[:len(lines)-1]
	ok := len(lines) >= 1 && len(lines) <= 2 && strings.HasSuffix(stderr, "\n") &&
		strings.HasPrefix(lines[0], "mcpscope: ") && !strings.HasPrefix(lines[0], "mcpscope: hint: ")
	if !ok || len(lines) == 2 && !strings.HasPrefix(lines[1], "mcpscope: hint: ") {
		t.Errorf("stderr is %q, want one line `mcpscope: …` and at most one `mcpscope: hint: …`", stderr)
	}
}

// checkSuccess: as if mcpscope was not there.
func checkSuccess(t *testing.T, o outcome) {
	t.Helper()
	if o.status != 0 || o.stdout != "" || o.stderr != "" {
		t.Errorf("ended with %v; stdout: %q; stderr: %q", o.status, o.stdout, o.stderr)
	}
}

// spoiled runs mcpscope behind a shell script that spoils its surroundings and ends in
// exec "$@".
func (w *world) spoiled(script string, args ...string) *exec.Cmd {
	line := append([]string{"sh", "-c", script, "sh", binaries.mcpscope}, args...)
	return w.Command(line...)
}

// Where the surroundings allow no group of the kind that is required there is no server,
// and one line says why. With few descriptors either is right, if it is done properly.
func TestPoorSurroundings(t *testing.T) {
	nobody := []string{"setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups"}
	for _, c := range []struct {
		what    string
		works   bool // it may
		command func(*world) *exec.Cmd
	}{
		{"8 descriptors", true, func(w *world) *exec.Cmd {
			return w.spoiled(`ulimit -n 8; exec "$@"`, "run", "--", "true")
		}},
		{"3 descriptors", true, func(w *world) *exec.Cmd {
			return w.spoiled(`ulimit -n 3; exec "$@"`, "run", "--", "true")
		}},
		{"no right to make groups", false, func(w *world) *exec.Cmd {
			return w.Command(append(nobody[:6:6], readable(w.T, binaries.mcpscope), "run", "--require", "--", "true")...)
		}},
		{"few processes for an ordinary user", false, func(w *world) *exec.Cmd {
			return w.Command(append(nobody[:6:6], "prlimit", "--nproc=20:20", readable(w.T, binaries.mcpscope), "run", "--require", "--", "true")...)
		}},
		{"no /proc", false, func(w *world) *exec.Cmd {
			return w.Viewed([]string{"--no-proc"}, binaries.mcpscope, "run", "--require", "--", "true")
		}},
		{"read-only cgroups", false, func(w *world) *exec.Cmd {
			return w.Viewed([]string{"--read-only", bed.Root(w.T)}, binaries.mcpscope, "run", "--require", "--", "true")
		}},
		{"no more groups allowed", false, func(w *world) *exec.Cmd {
			if err := os.WriteFile(filepath.Join(w.Dir, "cgroup.max.descendants"), []byte("1"), 0); err != nil {
				w.T.Fatal(err)
			}
			return w.mcpscope("run", "--require", "--", "true")
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			o := w.run(c.command(w))
			if c.works && o.status == 0 {
				checkSuccess(t, o)
			} else {
				checkRefusal(t, o, failed)
			}
			w.clean()
		})
	}
}

// readable is a copy of a program that every user can execute.
func readable(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mcpscope-e2e.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // in the temporary directory
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return copyBinary(t, program, filepath.Join(dir, filepath.Base(program)))
}

// copyBinary copies a program, of mcpscope both. It leaves the writing to another process: a descriptor of ours could be
// in a child that is just being forked, and the copy be busy (ETXTBSY).
func copyBinary(t *testing.T, program, path string) string {
	t.Helper()
	copies := [][2]string{{program, path}}
	if program == binaries.mcpscope {
		copies = append(copies, [2]string{program + "ctl", filepath.Join(filepath.Dir(path), "mcpscopectl")})
	}
	for _, copied := range copies {
		if out, err := exec.Command("cp", copied[0], copied[1]).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
	return path
}

// An update replaces the binary under the feet of running servers.
func TestBinaryReplacedWhileItRuns(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"replaced": replaceFile,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t), escape.NewMembers(t)
			path := copyBinary(t, binaries.mcpscope, filepath.Join(t.TempDir(), "mcpscope"))
			c := w.NewClient(w.Unique("client"), []string{"--group"},
				[]string{path, "run", "--term-grace", "300ms", "--", binaries.Zoo, "--register", m.Address, "ignore-both"})
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			c.Tell("signal %d", unix.SIGTERM)
			if status := c.Status(escape.Patience); status != "signal 9" {
				t.Errorf("ended with %q; stderr: %s", status, escape.Contents(c.Stderr))
			}
			if n := m.UntilDead(escape.Patience); n > 0 {
				t.Errorf("%d members left:\n\t%s", n, strings.Join(m.Survivors(), "\n\t"))
			}
			w.clean()
		})
	}
}

func replaceFile(path string) error {
	if err := os.WriteFile(path+".new", []byte("#!/bin/false\n"), 0o755); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
