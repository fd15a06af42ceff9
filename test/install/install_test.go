// SPDX-License-Identifier: Apache-2.0

// Package install tests how mcpscope comes to a host and leaves it, in a booted host of the test
// run's own (test/host), whose root file system is thrown away.
package install

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// built is where make build has put the programs.
const built = host.Shared + "/built"

func TestMain(m *testing.M) {
	host.Main(m, host.Options{Users: true, Build: build, Writable: escape.TableFiles()})
}

// byGo is where go install has put them.
const byGo = host.Shared + "/go"

func build(dir string) error {
	if err := escape.AppendTable(""); err != nil { // where the host finds it
		return err
	}
	if escape.Full() {
		if err := goInstall(filepath.Join(dir, filepath.Base(byGo))); err != nil {
			return err
		}
		if err := buildPackages(filepath.Join(dir, filepath.Base(packages))); err != nil {
			return err
		}
	}
	cmd := exec.Command("make", "--no-print-directory", "-C", "../..", "build", "VERSION=v0.1.0-test", "BIN="+filepath.Join(dir, filepath.Base(built)))
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// make runs it as sudo does: without Go in PATH.
func makes(t *testing.T, status int, args ...string) string {
	t.Helper()
	cmd := exec.Command("make", append([]string{"--no-print-directory", "-C", "../.."}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	return says(t, status, cmd)
}

// says runs a command that has to end with this status.
func says(t *testing.T, status int, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("%q: %v, want status %d: %s", cmd.Args, err, status, out)
	}
	return string(out)
}

// files are all below the directories that an installation may write to.
func files(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, dir := range []string{"/usr/local", "/usr/bin", "/usr/lib/systemd", "/lib/systemd", "/usr/libexec", "/usr/share/man", "/usr/share/doc", "/usr/share/bash-completion", "/usr/share/zsh", "/usr/share/fish", "/etc"} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // a directory may be missing
			if err == nil && !d.IsDir() {
				all[path] = true
			}
			return nil
		})
	}
	return all
}

// same fails the test if files have come or gone.
func same(t *testing.T, before map[string]bool) {
	t.Helper()
	after := files(t)
	for path := range after {
		if !before[path] {
			t.Errorf("left: %s", path)
		}
	}
	for path := range before {
		if !after[path] {
			t.Errorf("lost: %s", path)
		}
	}
}

const client = `{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}`

// place writes a file of a user's.
func place(t *testing.T, u host.User, path, text string) {
	t.Helper()
	says(t, 0, host.Current(t).Command(u, "sh", "-c", `mkdir -p "${0%/*}" && printf %s "$1" >"$0"`, path, text))
	t.Cleanup(func() { _ = os.Remove(path) }) // it may be gone
}

// Installed without Go; removed only when no client and no service needs it.
func TestMakeInstallAndUninstall(t *testing.T) {
	h := host.Current(t)
	before := files(t)
	if said := makes(t, 2, "install", "BIN=/nonexistent"); !strings.Contains(said, "there is no /nonexistent/mcpscope: run make build first") {
		t.Errorf("without a build: %s", said)
	}
	same(t, before)

	if said := makes(t, 0, "install", "BIN="+built); !strings.Contains(said, "installed mcpscope v0.1.0-test ") {
		t.Errorf("it says %q", said)
	}
	for _, file := range []string{"/usr/local/bin/mcpscope", "/usr/local/libexec/mcpscope/mcpscopectl", "/usr/local/share/man/man1/mcpscope-run.1",
		"/usr/local/lib/systemd/system/mcpscope-sweep.timer", "/usr/local/share/bash-completion/completions/mcpscope", "/etc/mcpscope/mcpscope.toml"} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	unit, err := os.ReadFile("/usr/local/lib/systemd/system/mcpscope-sweep.service")
	if err != nil || !strings.Contains(string(unit), "ExecStart=/usr/local/bin/mcpscope sweep") {
		t.Errorf("%v: %s", err, unit)
	}
	if said := says(t, 0, h.Command(host.Tester, "/usr/local/bin/mcpscope", "ls")); strings.Contains(said, "cannot") {
		t.Error(said)
	}

	used(t, "/usr/local/bin/mcpscope")
	file := host.Tester.Home + "/.claude.json"
	place(t, host.Tester, file, client)
	says(t, 0, h.Command(host.Tester, "/usr/local/bin/mcpscope", "wrap", "claude-code", "--yes"))
	gateway := "/etc/systemd/system/gateway.service"
	place(t, host.Root, gateway, "[Service]\nExecStart=/bin/sleep infinity\n")
	dropIn := gateway + ".d/mcpscope.conf"
	says(t, 0, h.Command(host.Root, "/usr/local/bin/mcpscope", "units", "gateway", "--unit", "gateway", "--install"))
	said := makes(t, 2, "uninstall")
	for _, want := range []string{
		file + ": 1 wrapped server of Claude Code: time\n", "first: sudo -H -u tester mcpscope unwrap --all\n",
		dropIn + ": a drop-in that starts the service by mcpscope", "first: sudo mcpscope units gateway --system --unit gateway.service --remove\n", "nothing is removed",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("uninstall does not say %q: %s", want, said)
		}
	}
	says(t, 0, h.Command(host.Tester, "/usr/local/bin/mcpscope", "ls"))

	says(t, 0, h.Command(host.Tester, "/usr/local/bin/mcpscope", "unwrap", "--all", "--yes"))
	if text, err := os.ReadFile(file); err != nil || string(text) != client {
		t.Errorf("%v: %s", err, text)
	}
	if said := makes(t, 2, "uninstall"); !strings.Contains(said, dropIn) || strings.Contains(said, file) {
		t.Errorf("it says %q", said)
	}
	says(t, 0, h.Command(host.Root, "/usr/local/bin/mcpscope", "units", "gateway", "--system", "--unit", "gateway.service", "--remove"))
	makes(t, 0, "uninstall")
	says(t, 0, h.Command(host.Root, "rm", gateway))
	same(t, before)
}

// A unit that starts mcpscope keeps it, unless it is told otherwise; changed settings stay.
func TestUninstallByForce(t *testing.T) {
	before := files(t)
	makes(t, 0, "install", "BIN="+built)
	place(t, host.Root, "/etc/systemd/system/agent.service", "[Service]\nExecStart=/usr/local/bin/mcpscope gateway -- agent\n")
	place(t, host.Root, "/etc/mcpscope/mcpscope.toml", "term-grace = \"2s\"\n")
	if said := makes(t, 2, "uninstall"); !strings.Contains(said, "/etc/systemd/system/agent.service: a unit that starts mcpscope\n") {
		t.Errorf("it says %q", said)
	}
	if said := makes(t, 0, "uninstall", "FORCE=1"); !strings.Contains(said, "/etc/mcpscope/mcpscope.toml stays: it was changed") {
		t.Errorf("it says %q", said)
	}
	for _, file := range []string{"/etc/systemd/system/agent.service", "/etc/mcpscope/mcpscope.toml"} {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
	_ = os.Remove("/etc/mcpscope") // a directory
	same(t, before)
}

// What go install has installed runs servers, and knows its version.
func TestGoInstall(t *testing.T) {
	if !escape.Full() {
		t.Skip("it unpacks all modules again: make test-full")
	}
	h := host.Current(t)
	if said := says(t, 0, h.Command(host.Tester, byGo+"/mcpscope", "version")); !strings.HasPrefix(said, "mcpscope "+version+" ") {
		t.Errorf("it says %q", said)
	}
	used(t, byGo+"/mcpscope")
	if said := says(t, 0, h.Command(host.Tester, byGo+"/mcpscope", "run", "--", "echo", "ran")); said != "ran\n" {
		t.Errorf("it says %q", said)
	}
}
