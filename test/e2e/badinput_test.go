// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// failed is the status of mcpscope's own failure.
const failed = 125

// checkRefusal: the status, one line of ours on stderr and at most one hint, nothing on stdout.
func checkRefusal(t *testing.T, o escape.Outcome) {
	t.Helper()
	if o.Status.ExitStatus() != failed || o.Stdout != "" {
		t.Errorf("ended with %v, want exit %d; stdout: %q", o.Status, failed, o.Stdout)
	}
	line, hint, _ := strings.Cut(strings.TrimSuffix(o.Stderr, "\n"), "\n")
	if !strings.HasPrefix(line, "mcpscope: ") || strings.HasPrefix(line, "mcpscope: hint: ") ||
		hint != "" && (!strings.HasPrefix(hint, "mcpscope: hint: ") || strings.Contains(hint, "\n")) {
		t.Errorf("stderr is %q, want one line `mcpscope: …` and at most one `mcpscope: hint: …`", o.Stderr)
	}
}

// as is a command line that runs as that user.
func as(uid int, command ...string) []string {
	user := fmt.Sprint(uid)
	return append([]string{"setpriv", "--reuid", user, "--regid", user, "--clear-groups"}, command...)
}

// lonely is a user that no process of another test has: the limit of processes counts all of a user's.
func lonely(n int) int { return lonelies + n }

var lonelies = 100_000 + 8*rand.IntN(1<<20)

// Where the surroundings allow no group of the kind that is required there is no server, and one line says why.
func TestPoorSurroundings(t *testing.T) {
	required := []string{binaries.mcpscope, "run", "--require", "--", "true"}
	for what, command := range map[string]func(*world) *exec.Cmd{
		"no right to make groups": func(w *world) *exec.Cmd {
			return w.Command(as(attacker, readable(w.T, binaries.mcpscope), "run", "--require", "--", "true")...)
		},
		"no /proc": func(w *world) *exec.Cmd { return w.Viewed([]string{"--no-proc"}, required...) },
		"read-only cgroups": func(w *world) *exec.Cmd {
			return w.Viewed([]string{"--read-only", bed.Root(w.T)}, required...)
		},
		"no more groups allowed": func(w *world) *exec.Cmd {
			if err := bed.Write(filepath.Join(w.Dir, "cgroup.max.descendants"), "1"); err != nil {
				w.T.Fatal(err)
			}
			return w.Command(required...)
		},
		"tree is not enough": func(w *world) *exec.Cmd {
			return w.mcpscope("run", "--backend", "tree", "--require", "--", "true")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			checkRefusal(t, w.run(command(w)))
			w.clean()
		})
	}
}

// readable is a copy of a program, of mcpscope both, that every user can execute. It leaves the writing to another process:
// a descriptor of ours could be in a child that is just being forked, and the copy be busy (ETXTBSY).
func readable(t *testing.T, program string) string {
	t.Helper()
	dir := escape.OpenDir(t)
	if out, err := exec.Command("sh", "-c", `cp "$2"* "$1"`, "sh", dir, program).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	return filepath.Join(dir, filepath.Base(program))
}

// GODEBUG and GOMEMLIMIT are for a server that is written in Go, and not for mcpscope's runtime.
func TestVariablesOfTheRuntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.mcpscope("run", "--on-client-death", "auto", "--", "/bin/sh", "-c", "echo $GODEBUG $GOMEMLIMIT")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1", "GOMEMLIMIT=odd")
	if o := w.run(cmd); o.Status != 0 || o.Stdout != "inittrace=1 odd\n" || o.Stderr != "" {
		t.Errorf("status %v, %q, stderr: %s", o.Status, o.Stdout, o.Stderr)
	}
}

// Launcher, guard and helpers share a file in memory. Below its size there is one line and a hint.
func TestLittleFileSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, size := range []int{0, 512, 16 << 10, 36 << 10} {
		for _, flags := range [][]string{nil, {"--on-client-death", "auto"}} {
			line := slices.Concat([]string{"prlimit", fmt.Sprintf("--fsize=%d", size), binaries.mcpscope, "run"}, flags, []string{"--", "true"})
			o := w.run(w.Command(line...))
			says := size == 0 || strings.HasPrefix(o.Stderr, "mcpscope: cannot ") && strings.Count(o.Stderr, "\n") <= 2 // it is a file
			refused := o.Status.ExitStatus() == 125 && says
			if ran := o.Status == 0 && o.Stderr == ""; !ran && !refused {
				t.Errorf("%d bytes, %q: %v: %s", size, flags, o.Status, o.Stderr)
			}
		}
	}
}

// A plain start that is left to main changes nothing, and refuses what main refuses.
func TestPlainStartGivesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inner := []string{binaries.mcpscope, "run", "--name", "inner", "--", "grep", "SigIgn", "/proc/self/status"}
	line := append([]string{"env", "--ignore-signal=CHLD", binaries.mcpscope, "run", "--name", "outer", "--"}, inner...)
	o := w.run(w.Command(line...))
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(o.Stdout, "SigIgn:")), 16, 64)
	if err != nil || mask&(1<<(unix.SIGCHLD-1)) == 0 {
		t.Errorf("%q, %v; stderr: %s", o.Stdout, err, o.Stderr)
	}
	o = w.run(w.mcpscope("run", "--name", "", "--", "true"))
	if o.Status.ExitStatus() != 125 || !strings.Contains(o.Stderr, "empty") {
		t.Errorf("an empty name: %v, %q", o.Status, o.Stderr)
	}
}

// A user without room for another process gets one line, and no stack trace of a runtime.
func TestNoMoreProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for limit := range 12 {
		line := as(lonely(6), "prlimit", fmt.Sprintf("--nproc=%d:%d", limit+1, limit+1), readable(t, binaries.mcpscope), "run", "--", "true")
		o := w.run(w.Command(line...))
		refused := o.Status.ExitStatus() == 125 && strings.HasPrefix(o.Stderr, "mcpscope: cannot ") && strings.Count(o.Stderr, "\n") <= 2
		if ran := o.Status == 0 && o.Stderr == ""; !ran && !refused {
			t.Errorf("with %d processes: status %v, %.200s", limit+1, o.Status, o.Stderr)
		}
	}
}

// A client may start its servers without any variable.
func TestNoVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, flag := range []string{"--name", "--report"} {
		o := w.run(w.Command("env", "-i", binaries.mcpscope, "run", flag, "/dev/null", "--backend", "cgroup", "--", "/bin/echo", "up"))
		if o.Status != 0 || o.Stdout != "up\n" || o.Stderr != "" {
			t.Errorf("%s: %v, %q, %q", flag, o.Status, o.Stdout, o.Stderr)
		}
	}
	w.clean()
}

// A Go runtime needs address space. A run that has one says so in a line; a plain one does without.
func TestLittleAddressSpace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, limit := range []string{"20000", "300000", "1000000"} {
		run := func(flag, value string) escape.Outcome {
			const script = `ulimit -v "$0" && exec "$@"`
			return w.run(w.Command("sh", "-c", script, limit, binaries.mcpscope, "run", "--name", "server", "--backend", "cgroup",
				flag, value, "--", "true"))
		}
		if o := run("--eof-grace", "1m"); o.Status != 0 || o.Stderr != "" {
			t.Errorf("%s, plain: status %v, %q", limit, o.Status, o.Stderr)
		}
		const want = "mcpscope: cannot run a server: the limit of address space is too low\n" +
			"mcpscope: hint: raise it to 1 GB at least (ulimit -v, LimitAS=)\n"
		if o := run("--stderr", "inherit"); o.Status.ExitStatus() != 125 || o.Stderr != want {
			t.Errorf("%s: status %v, %q", limit, o.Status, o.Stderr)
		}
	}
	const script = `ulimit -d 32000 && exec "$0" run --stderr inherit -- true`
	const want = "mcpscope: cannot run a server: the limit of data memory is too low\n" +
		"mcpscope: hint: raise it to 64 MB at least (ulimit -d, LimitDATA=)\n"
	if o := w.run(w.Command("sh", "-c", script, binaries.mcpscope)); o.Status.ExitStatus() != 125 || o.Stderr != want {
		t.Errorf("data: status %v, %q", o.Status, o.Stderr)
	}
	w.clean()
}

// A start needs no Go runtime with the usual flags, and with the usual settings files. What these set holds.
func TestPlainStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := func(text string) string {
		dir := t.TempDir()
		if err := os.Mkdir(dir+"/mcpscope", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/mcpscope/mcpscope.toml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return "XDG_CONFIG_HOME=" + dir
	}
	example, err := os.ReadFile("../../packaging/mcpscope.toml")
	if err != nil {
		t.Fatal(err)
	}
	none := "NONE="
	for _, c := range []struct {
		flags, variable string
		plain           bool
	}{
		{"", none, true},
		{"--require --replace --eof-grace=2s --term-grace 2s --idle-timeout 1h --idle-freeze 1h -q", none, true},
		{"-v --on-client-death stop", none, true},
		{"--on-client-death=ignore", none, true},
		{"", settings(string(example)), true},
		{"", settings("[defaults]\n\n# term-grace = \"5s\"\n"), true},
		{"", settings("[defaults]\nterm-grace = \"5s\" # enough\n"), true},
		{"", settings("[server.\"counts\"]\nterm-grace = \"5s\"\n"), false},
		{"", settings("nonsense\n"), false},
		{"", "MCPSCOPE_TERM_GRACE=5s", false},
		{"--stderr inherit", none, false},
		{"--min-free 1M", none, false},
		{"--report /dev/null", none, false},
	} {
		words := append([]string{"run", "--name=counts", "--backend=cgroup"}, strings.Fields(c.flags)...)
		cmd := w.mcpscope(append(words, "/bin/sh", "-c", "grep -c MCPSCOPE_PLAN /proc/$PPID/environ; true")...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), c.variable}
		o := w.run(cmd)
		if plain := o.Stdout == "0\n"; o.Status != 0 || plain != c.plain {
			t.Errorf("%q, %s: status %v, plain %s; stderr: %s", c.flags, c.variable, o.Status, o.Stdout, o.Stderr)
		}
		if says := strings.Contains(c.flags, "-v "); says != strings.Contains(o.Stderr, "ended after") {
			t.Errorf("%q: stderr: %s", c.flags, o.Stderr)
		}
	}
	w.clean()
}

// Without a HOME the settings are below the home that the user database has. A plain launcher reads that of root, as for
// services of the system, and leaves a HOME to main that is no path.
func TestSettingsWithoutHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, home := range []string{"HOME=" + t.TempDir(), "HOME=", "HOME=relative", "NONE="} {
		cmd := w.mcpscope("run", "--name", "counts", "--backend", "cgroup", "--", "/bin/sh", "-c", "grep -c MCPSCOPE_PLAN /proc/$PPID/environ; true")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), home}
		o := w.run(cmd)
		if plain := o.Stdout == "0\n"; o.Status != 0 || plain != (home != "HOME=relative") {
			t.Errorf("%s: status %v, plain %s; stderr: %s", home, o.Status, o.Stdout, o.Stderr)
		}
	}
}
