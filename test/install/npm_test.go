// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/registry"
)

// npm runs Node's package manager as root, with settings and a cache of its own.
type npm struct {
	t        *testing.T
	dir      string
	registry string
}

// newNpm returns an npm with a registry that has the tarballs, and nothing else: the host has no network.
func newNpm(t *testing.T) npm {
	t.Helper()
	debian(t)
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm here")
	}
	return npm{t: t, dir: host.Directory(t, host.Root), registry: startRegistry(t)}
}

func (n npm) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = environ("npm_config_registry="+n.registry, "npm_config_userconfig=/dev/null",
		"npm_config_cache="+n.dir+"/cache", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
	return cmd
}

func (n npm) run(status int, name string, args ...string) string {
	n.t.Helper()
	return says(n.t, status, n.command(n.dir, name, args...))
}

// tarballs are the packages for npm.
func tarballs(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(packages + "/new/*.tgz")
	if err != nil || len(found) != 2 {
		t.Fatalf("there are %q, %v, and not the small package and the one of this processor", found, err)
	}
	return found
}

// startRegistry serves the tarballs, which run nothing when they are installed.
func startRegistry(t *testing.T) string {
	t.Helper()
	for _, file := range tarballs(t) {
		manifest, err := registry.Manifest(file)
		if err != nil {
			t.Fatal(err)
		}
		if scripts, found := manifest["scripts"]; found {
			t.Errorf("%s runs %v", file, scripts)
		}
	}
	packages, err := registry.Serve(tarballs(t)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(packages.Close)
	return packages.URL
}

// TestNpm is the life of a global installation: the starter becomes the program, wrapped files name that
// program, and a removal leaves no file.
func TestNpm(t *testing.T) {
	n := newNpm(t)
	before := files(t)
	n.run(0, "npm", "install", "--global", "mcpscope")
	t.Cleanup(func() { _ = n.command(n.dir, "npm", "uninstall", "--global", "mcpscope").Run() }) // it may be gone
	prefix := strings.TrimSpace(n.run(0, "npm", "prefix", "--global"))
	starter := prefix + "/bin/mcpscope"
	escape.Contains(t, tester(t, starter, "version"), "mcpscope "+newer+" ", "mcpscopectl "+newer+" ")
	if _, err := os.Stat(prefix + "/share/man/man1/mcpscope-run.1"); err != nil {
		t.Error(err)
	}
	program := startedBy(t, starter)
	if !strings.HasPrefix(program, prefix+"/lib/node_modules/mcpscope/") {
		t.Errorf("%s starts %s", starter, program)
	}
	usedAs(t, starter, program)
	escape.Contains(t, tester(t, starter, "units"), "ExecStart="+program+" sweep")

	if err := os.Rename(filepath.Dir(program), filepath.Dir(program)+".moved"); err != nil {
		t.Fatal(err)
	}
	escape.Contains(t, root(t, 125, starter, "version"), "npm has not installed @mcpscope/linux-",
		"hint: npm install -g --include=optional mcpscope\n")
	if err := os.Rename(filepath.Dir(program)+".moved", filepath.Dir(program)); err != nil {
		t.Fatal(err)
	}

	n.run(0, "npm", "uninstall", "--global", "mcpscope")
	same(t, before)
}

// startedBy returns the program of the process that the starter was, after checks of its input, statuses and
// signals.
func startedBy(t *testing.T, starter string) string {
	t.Helper()
	cat := host.Current(t).Command(host.Tester, starter, "run", "--", "cat")
	cat.Stdin = strings.NewReader("served")
	if said := says(t, 0, cat); said != "served" {
		t.Errorf("cat printed %q", said)
	}
	says(t, 7, host.Current(t).Command(host.Tester, starter, "run", "--", "sh", "-c", "exit 7"))
	says(t, 127, host.Current(t).Command(host.Tester, starter, "run", "--", "/nonexistent"))
	says(t, 125, host.Current(t).Command(host.Tester, starter, "run", "--no-such-flag"))

	cmd := exec.Command(starter, "run", "--", "sh", "-c", `trap 'exit 3' TERM; echo ready; sleep infinity & wait`)
	cmd.Env = environ()
	talk := escape.StartTalk(t, cmd, cmd.Start)
	talk.Hear("ready")
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its status is below
	if status := cmd.ProcessState.ExitCode(); status != 3 {
		t.Errorf("after SIGTERM the status is %d", status)
	}
	return program
}

// TestNpx: npx runs mcpscope from a cache. No file may name a program that is there.
func TestNpx(t *testing.T) {
	n := newNpm(t)
	escape.Contains(t, n.run(0, "npx", "--yes", "mcpscope", "version"), "mcpscope "+newer+" ")
	if said := n.run(0, "npx", "--yes", "mcpscope", "run", "--", "echo", "served"); !strings.Contains(said, "served") {
		t.Errorf("echo printed %q", said)
	}
	for _, command := range []string{"wrap", "units"} {
		escape.Contains(t, n.run(1, "npx", "--yes", "mcpscope", command), "is in the cache of npx, which npm may remove",
			"hint: npm install -g mcpscope, then mcpscope "+command+"\n")
	}
}

// TestNpmTarballs: without any registry the tarballs of a release install into a project.
func TestNpmTarballs(t *testing.T) {
	n := newNpm(t)
	project := host.Directory(t, host.Root)
	if err := os.Chmod(project, 0o755); err != nil { // a user runs it
		t.Fatal(err)
	}
	install := n.command(project, "npm", append([]string{"install", "--offline"}, tarballs(t)...)...)
	says(t, 0, install)
	starter := project + "/node_modules/.bin/mcpscope"
	escape.Contains(t, root(t, 0, starter, "--version"), "mcpscope "+newer)
	if program := startedBy(t, starter); !strings.HasPrefix(program, project+"/node_modules/@mcpscope/linux-") {
		t.Errorf("%s starts %s", starter, program)
	}
}
