// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// The properties that the main process is born with.
func TestBirth(t *testing.T) {
	own := strconv.Itoa(unix.Getpgrp())
	session, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("echo \"$0 $1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, ignored, _ := strings.Cut(string(status), "SigIgn:\t")
	ignored, _, _ = strings.Cut(ignored, "\n") // none, as a rule
	for name, c := range map[string]struct {
		script string
		change func(*config)
		want   string
	}{
		"cgroup":             {"grep -c '^0::.*/server$' /proc/self/cgroup", nil, "1"},
		"cgroup by joining":  {"grep -c '^0::.*/server$' /proc/self/cgroup", func(c *config) { c.Refuses = uint32(unix.ENOSYS) }, "1"},
		"environment":        {"tr '\\0' '\\n' </proc/$$/environ | grep -c '^A='", func(c *config) { c.Server.Env = []string{"A=1", "A=2"} }, "2"},
		"another group":      {"group=$(cut -d' ' -f5 /proc/$$/stat); while test -e /proc/$group; do sleep 0.01; done; echo ended", nil, "ended"},
		"launcher's group":   {"cut -d' ' -f5 /proc/$$/stat", func(c *config) { c.Server.Pgid = unix.Getpgrp() }, own},
		"launcher's session": {"cut -d' ' -f6 /proc/$$/stat", nil, strconv.Itoa(session)},
		"files":              {"ulimit -Sn; ulimit -Hn", func(c *config) { c.Server.NoFile = unix.Rlimit{Cur: 321, Max: 4000} }, "321"},
		"tag":                {"grep -c 'file locks *77 *88 ' /proc/self/limits", func(c *config) { c.Server.Locks = unix.Rlimit{Cur: 77, Max: 88} }, "1"},
		"blocked signals":    {"grep SigBlk /proc/self/status | cut -f2", func(c *config) { c.Server.Signals.Blocked = 1<<11 | 1<<40 }, "0000010000000800"},
		"no blocked signals": {"grep SigBlk /proc/self/status | cut -f2", nil, "0000000000000000"},
		"ignored signals":    {"grep SigIgn /proc/self/status | cut -f2", nil, ignored},
		"descriptors":        {"ls -l /proc/self/fd | grep -c 'memfd\\|anon_inode\\|socket\\|guards'; true", nil, "0"},
		"dumpable":           {"test -O /proc/$$/mem && echo yes", nil, "yes"},
		"parent":             {"test $PPID = $(cut -d' ' -f4 /proc/$$/stat) && readlink /proc/$PPID/exe | grep -c guard.test", nil, "1"},
		"in no tree": {"for p in $(cat $LEAF/cgroup.procs); do cut -d' ' -f4 /proc/$p/stat; done", func(c *config) {
			c.Server.Env = append(c.Server.Env, "LEAF="+c.Parent+"/guards")
		}, "1"},
		"script without #!": {"", func(c *config) { c.Server.Path, c.Server.Argv = script, []string{"name", "arg"} }, script + " arg"},
		"death signal":      {"echo $(grep -c SIGKILL /proc/self/status)", nil, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, c.script, c.change)
			if got := r.line(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if status := r.status(); status != 0 {
				t.Errorf("status %d, log %s; %s", status, r.log(), r.stderr.String())
			}
			r.wantNothing()
		})
	}
}

// A server that can't be executed.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		change func(*config)
		status int
	}{
		"none":      {func(c *config) { c.Server.Path = dir + "/none" }, 127},
		"directory": {func(c *config) { c.Server.Path = dir }, 126},
		"group":     {func(c *config) { c.Server.Pgid = 1 << 22 }, 125},
		"limits":    {func(c *config) { c.Server.Locks = unix.Rlimit{Cur: 2, Max: 1} }, 125},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, "", c.change)
			r.wantStatus(c.status)
			r.wantLog("nothing left, 0 guards replaced")
			r.wantNothing()
		})
	}
}

// The guard has no descriptor of the client's, and nothing of its command line.
func TestGuardHasNothingOfTheClient(t *testing.T) {
	r := start(t, sleeper, nil)
	r.line()
	guard := r.guard().Pid
	// the server may be faster than the guard, which closes what is the client's last
	want := "/memfd:mcpscope (deleted)*1 EVENTS*1 anon_inode:[eventpoll]*1 " +
		"anon_inode:[pidfd]*2 anon_inode:[signalfd]*1 program*1 socket*1 …*1 …/guards*1 …/server*1 " +
		"…/server/cgroup.events*1 …/server/cgroup.freeze*1 …/server/cgroup.kill*1"
	var open string
	if !pace.Eventually(patience, func() bool { open = openFiles(t, r, guard); return open == want }) {
		t.Errorf("descriptors:\n%s, want\n%s", open, want)
	}
	if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guard)); err != nil || strings.Trim(string(args), "\x00") != "guard-test" {
		t.Errorf("command line %q, %v", args, err)
	}
	if session, err := unix.Getsid(guard); err != nil || session != guard {
		t.Errorf("in session %d, %v; the client's terminal reaches it", session, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
	if err != nil || !strings.Contains(string(status), "\nSigBlk:\tfffffffffffbfeff\n") {
		t.Errorf("all signals should be blocked: %s, %v", status, err)
	}
	_ = r.stdin.Close()
	r.wantStatus(143)
	r.wantNothing()
}

// openFiles are the descriptors of the guard; it does not report when it has closed the client's.
func openFiles(t *testing.T, r *run, guard int) string {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", guard))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	program, _ := os.Readlink("/proc/self/exe")
	short := strings.NewReplacer(program, "program", r.config.Parent, "…", r.events.Name(), "EVENTS", fmt.Sprint("/", guard), "/N")
	for _, file := range files {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", guard, file.Name()))
		if strings.HasPrefix(link, "socket:") {
			link = "socket"
		}
		count[short.Replace(link)]++
	}
	var open []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		open = append(open, fmt.Sprint(name, "*", count[name]))
	}
	return strings.Join(open, " ")
}
