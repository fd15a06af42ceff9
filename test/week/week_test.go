// SPDX-License-Identifier: Apache-2.0

// Package week has the first week of a user with mcpscope as scripts of testscript. Each file is one promise, and
// its name sorts by the day on which most users meet it.
//
// Most scripts need a home directory alone. The others begin with `[!host] skip`: they run on a host with
// systemd, which root's `go test` boots in namespaces (package host).
//
// The scripts of testdata/later describe a behavior that does not hold yet. Their first line has the defect. The
// variable TESTS_WEEK_LATER=1 runs them. When the defect is mended the file moves one folder up.
package week

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// built has the programs of this checkout as version 0.1.0, "next" below it as version 0.2.0, and "toy" the programs of
// package toy.
var built = filepath.Join(host.Shared, "week")

// noHost is the reason for which scripts that need a host are skipped, or "".
var noHost string

func TestMain(m *testing.M) {
	host.Stage() // does not return in a helper process of package host
	// The user's make is not below another one, and installs the mcpscope that there is.
	for _, name := range []string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS", bed.InstalledEnv} {
		_ = os.Unsetenv(name)
	}
	escape.Choose(m, "week")
	if bed.Outermost() {
		noHost = reasonWithoutHost()
	}
	if noHost != "" {
		os.Exit(runPlain(m))
	}
	bed.Parallel(4)
	host.Main(m, host.Options{Users: true, Build: func(dir string) error { return build(filepath.Join(dir, "week")) }})
}

func reasonWithoutHost() string {
	if os.Geteuid() != 0 {
		return "it boots a systemd, which needs root"
	}
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		return "this machine has no systemd to boot"
	}
	if _, err := bed.OwnGroup(); err != nil {
		return "this machine has no cgroup v2: " + err.Error()
	}
	return ""
}

// runPlain runs the scripts that need no host. mcpscope is not in a temporary directory: wrap refuses it there.
func runPlain(m *testing.M) int {
	cache, err := filepath.Abs("../../.cache")
	for _, temporary := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if strings.HasPrefix(cache, temporary+"/") {
			fmt.Println("SKIP: this checkout is in a temporary directory, in which wrap refuses mcpscope")
			return 0
		}
	}
	if err == nil {
		err = os.MkdirAll(cache, 0o755)
	}
	if err == nil {
		built, err = os.MkdirTemp(cache, "week.")
	}
	if err == nil {
		defer func() { _ = os.RemoveAll(built) }() // below .cache, which make clean removes
		err = build(built)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(dir string) error {
	for _, args := range [][]string{
		{"make", "--no-print-directory", "-C", "../..", "build", "VERSION=v0.1.0", "BIN=" + dir},
		{"make", "--no-print-directory", "-C", "../..", "build", "VERSION=v0.2.0", "BIN=" + filepath.Join(dir, "next")},
		{"go", "build", "-trimpath", "-o", filepath.Join(dir, "toy") + "/", "./toy/..."},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w\n%s", args, err, out)
		}
	}
	return nil
}

// tested makes a script's own *testing.T known to setUp.
type tested struct{ *testing.T }

func (t tested) Verbose() bool { return testing.Verbose() }
func (t tested) Run(name string, test func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { test(tested{t}) })
}

func TestWeek(t *testing.T) { runScripts(t, "testdata") }

func TestLater(t *testing.T) {
	if os.Getenv("TESTS_WEEK_LATER") == "" {
		t.Skip("these defects are known: TESTS_WEEK_LATER=1 runs their scripts")
	}
	if files, _ := filepath.Glob("testdata/later/*"); len(files) == 0 { // the pattern is valid
		t.Skip("no defect of that kind is known")
	}
	runScripts(t, "testdata/later")
}

func runScripts(t *testing.T, dir string) {
	// below the programs: all users may enter that directory, and wrap does not take it for a temporary one
	work, err := os.MkdirTemp(built, "scripts.")
	if err := errors.Join(err, os.Chmod(work, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(work) }) // with the programs, at the latest
	deadline, _ := t.Deadline()
	files, err := escape.Scripts(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	testscript.RunT(tested{t}, testscript.Params{
		Files: files, WorkdirRoot: work, Setup: setUp, Condition: condition, Deadline: deadline,
		RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await, "reads": reads},
	})
}

// condition: host is whether a script has a booted host, and pids whether tester's manager can limit processes there.
func condition(name string) (bool, error) {
	switch name {
	case "host":
		return noHost == "", nil
	case "pids":
		controllers, err := os.ReadFile(filepath.Join(filepath.Dir(host.Tester.Slice()), "cgroup.controllers"))
		return strings.Contains(string(controllers), "pids"), err
	}
	return false, errors.New("unknown condition " + name)
}

// setUp gives a script mcpscope and the toys in PATH, and an empty home:
//
//	$BUILT   the result of make build, as version 0.1.0; $BUILT/next is version 0.2.0
//	$SOURCE  this checkout
//
// On a host the script is root's, the home is tester's, and "as tester COMMAND…" runs a command in tester's login.
// Without a host, tester is the user who runs the tests.
// A unit NAME.service that is a file of the script is stopped and removed afterwards.
func setUp(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	bin := filepath.Join(env.WorkDir, ".bin")
	source, err := filepath.Abs("../..")
	if err := errors.Join(err, os.MkdirAll(home, 0o755), os.Mkdir(bin, 0o755)); err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("SOURCE", source)
	env.Setenv("BUILT", built)
	env.Setenv("PATH", strings.Join([]string{bin, built, filepath.Join(built, "toy"), os.Getenv("PATH")}, ":"))
	if noHost != "" {
		return os.WriteFile(filepath.Join(bin, "as"), []byte("#!/bin/sh\nshift\nexec \"$@\"\n"), 0o755)
	}
	as := fmt.Sprintf(`#!/bin/sh
shift
echo $$ >%[3]s/cgroup.procs
exec setpriv --reuid=%[2]d --regid=%[2]d --clear-groups env USER=%[1]s XDG_RUNTIME_DIR=/run/user/%[2]d "$@"
`, host.Tester.Name, host.Tester.UID, host.TestersGroup())
	ctx, cancel := pace.Context(4 * escape.Patience)
	stop := context.AfterFunc(ctx, func() { killBelow(env.WorkDir) }) // a command that hangs fails its script, not all others
	env.Defer(func() {
		stop()
		cancel()
		killBelow(env.WorkDir) // of a script that failed: testscript waits for those that have its pipes
		removeUnits(env.T().(tested).T, env.WorkDir)
	})
	return errors.Join(os.WriteFile(filepath.Join(bin, "as"), []byte(as), 0o755),
		exec.Command("chown", "-R", fmt.Sprint(host.Tester.UID, ":", host.Tester.UID), env.WorkDir).Run())
}

// ofMcpscope are the names of guards, helpers and watchers.
var ofMcpscope = regexp.MustCompile(`^(mcpscope|guard|helper)-`)

// killBelow kills the processes that work in a directory. All that a script starts is among them, but for its units.
// Guards, helpers and watchers stay: they remove the groups.
func killBelow(dir string) {
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, process := range found {
		pid, _ := strconv.Atoi(filepath.Base(process)) // it is a number
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// the directory is that of the process which the pidfd holds, or of none
		name, _ := os.ReadFile(process + "/comm") // none, if it has exited
		cwd, _ := os.Readlink(process + "/cwd")
		isOfMcpscope := ofMcpscope.Match(name)
		if strings.HasPrefix(cwd+"/", dir+"/") && !isOfMcpscope {
			_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // it may have exited
		}
		_ = unix.Close(pidfd)
	}
}

// removeUnits stops what a script has started by systemd, also when the script failed.
func removeUnits(t *testing.T, work string) {
	units, _ := filepath.Glob(filepath.Join(work, "*.service")) // the pattern is valid
	for _, file := range units {
		name := filepath.Base(file)
		host.StopUnits(t, host.Root, name)
		for _, path := range []string{name, name + ".d"} {
			if err := os.RemoveAll(filepath.Join(host.Root.Units(), path)); err != nil {
				t.Error(err)
			}
		}
	}
	if len(units) > 0 {
		host.Must(t, host.Current(t).Manage(host.Root, "systemctl", "daemon-reload"))
	}
}
