// SPDX-License-Identifier: Apache-2.0

// Package install tests how mcpscope comes to a host and leaves it, in a booted host of the test run's own
// (test/host), whose root file system is thrown away.
package install

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// The files built outside of the host: by make build, by go install, and packages of two versions.
const (
	built    = host.Shared + "/built"
	byGo     = host.Shared + "/go"
	byPIE    = host.Shared + "/pie"
	packages = host.Shared + "/packages"
	module   = "github.com/mcpscope/mcpscope"
	version  = "v0.1.0-test.1" // of the module that go install gets
)

func TestMain(m *testing.M) {
	_ = os.Unsetenv(bed.InstalledEnv) // the tests install mcpscope themselves
	host.Main(m, host.Options{Users: true, Build: build})
}

func build(dir string) error {
	cmd := exec.Command("make", "--no-print-directory", "-C", "../..", "build", "VERSION=v0.1.0-test",
		"BIN="+filepath.Join(dir, "built"))
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	if err := goInstall(filepath.Join(dir, "go"), "CGO_ENABLED=0"); err != nil {
		return err
	}
	if err := goInstall(filepath.Join(dir, "pie"), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildmode=pie"); err != nil {
		return err
	}
	if nfpm := os.Getenv(nfpmEnv); nfpm != "" {
		return buildPackages(filepath.Join(dir, "packages"), nfpm)
	}
	return nil
}

// goInstall runs go install module/cmd/...@version, with a module proxy of files that has this checkout as
// that version. The modules that it needs are in the machine's cache, from the build above.
func goInstall(bin string, settings ...string) error {
	scratch, err := os.MkdirTemp("", "install-test.")
	if err != nil {
		return err
	}
	defer func() {
		_ = exec.Command("chmod", "-R", "u+w", scratch).Run() // a module cache is read-only
		_ = os.RemoveAll(scratch)
	}()
	proxy := filepath.Join(scratch, "proxy", module, "@v")
	mod, err := os.ReadFile("../../go.mod")
	if err := errors.Join(err, os.MkdirAll(proxy, 0o755),
		os.WriteFile(proxy+"/list", []byte(version+"\n"), 0o644),
		os.WriteFile(proxy+"/"+version+".mod", mod, 0o644),
		os.WriteFile(proxy+"/"+version+".info", []byte(`{"Version":"`+version+`"}`), 0o644),
		writeModule(proxy+"/"+version+".zip")); err != nil {
		return err
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "install", module+"/cmd/...@"+version)
	cmd.Dir = scratch
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOWORK=off", "GOSUMDB=off",
		"GOFLAGS=-trimpath", // not to compile all packages again
		"GOMODCACHE="+filepath.Join(scratch, "modules"), // not to leave the version in the machine's
		"GOPROXY=file://"+scratch+"/proxy,file://"+strings.TrimSpace(string(cache))+"/cache/download,off")
	cmd.Env = append(cmd.Env, settings...)
	return cmd.Run()
}

// writeModule writes the checkout as a proxy has it, but for the tests. Modules of their own, as tools/manifests, are
// not part of it.
func writeModule(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	ls := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	ls.Dir = "../.."
	out, err := ls.Output()
	if err != nil {
		return err
	}
	w := zip.NewWriter(f)
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile("../../" + name)
		if strings.HasPrefix(name, "test/") || ofAnotherModule(name) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		entry, createErr := w.Create(module + "@" + version + "/" + name)
		if err := errors.Join(err, createErr); err != nil {
			return err
		}
		if _, err := entry.Write(text); err != nil {
			return err
		}
	}
	return w.Close()
}

// ofAnotherModule reports whether a directory above a file of the checkout has a go.mod.
func ofAnotherModule(name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat("../../" + dir + "/go.mod"); err == nil {
			return true
		}
	}
	return false
}

// environ is without Go in PATH, as sudo's.
func environ(more ...string) []string {
	return append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + host.Root.Home, "DEBIAN_FRONTEND=noninteractive"}, more...)
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

// root runs a command as root.
func root(t *testing.T, status int, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = environ()
	return says(t, status, cmd)
}

func makes(t *testing.T, status int, args ...string) string {
	t.Helper()
	return root(t, status, append([]string{"make", "--no-print-directory", "-C", "../.."}, args...)...)
}

// tester runs a command as an ordinary user.
func tester(t *testing.T, argv ...string) string {
	t.Helper()
	return says(t, 0, host.Current(t).Command(host.Tester, argv...))
}

// files are all below the directories that an installation may write to.
func files(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, dir := range []string{"/usr/local", "/usr/bin", "/usr/lib/systemd", "/lib/systemd",
		"/usr/libexec", "/usr/share", "/etc"} {
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
		delete(before, path)
	}
	for path := range before {
		t.Errorf("lost: %s", path)
	}
}

var configFile = host.Tester.Home + "/.claude.json"

const configuration = `{"mcpServers": {"clock": {"command": "sh", "args": ["-c", "echo ready; cat"]}}}`

// wrapped wraps the server of a client's file.
func wrapped(t *testing.T, mcpscope string) {
	t.Helper()
	tester(t, "sh", "-c", `printf %s "$0" >~/.claude.json`, configuration)
	t.Cleanup(func() { _ = os.Remove(configFile) })
	tester(t, mcpscope, "wrap", "claude-code", "--yes")
}

func unwrapped(t *testing.T, mcpscope string) {
	t.Helper()
	tester(t, mcpscope, "unwrap", "--yes")
	if text, err := os.ReadFile(configFile); err != nil || string(text) != configuration {
		t.Errorf("%v: %s", err, text)
	}
}

// used is the way of the README's reader: a server is wrapped, its client starts it, ls shows it, and it ends
// with its client.
func used(t *testing.T, mcpscope string) {
	t.Helper()
	usedAs(t, mcpscope, mcpscope)
}

// usedAs is used where the client has to start another file than the one that the reader runs.
func usedAs(t *testing.T, mcpscope, program string) {
	t.Helper()
	wrapped(t, mcpscope)
	text, err := os.ReadFile(configFile)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	server := config.MCPServers["clock"]
	if server.Command != program {
		t.Errorf("the client starts %q, not %q", server.Command, program)
	}
	cmd := host.Current(t).Command(host.Tester, append([]string{server.Command}, server.Args...)...)
	talk := escape.StartTalk(t, cmd, cmd.Start)
	talk.Hear("ready")
	escape.Contains(t, tester(t, mcpscope, "ls"), " clock ", " systemd-user")
	_ = talk.Stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if said := tester(t, mcpscope, "ls"); said != "" {
		t.Errorf("left: %s", said)
	}
	unwrapped(t, mcpscope)
}

// settings is the administrator's file, which no installation writes.
const settings = "/etc/mcpscope/mcpscope.toml"

// place writes a unit or settings.
func place(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
}

// Installed without Go. A removal says what cannot start any more, and how that is undone; settings stay.
func TestMakeInstallAndUninstall(t *testing.T) {
	before := files(t)
	escape.Contains(t, makes(t, 2, "install", "BIN=/nonexistent"),
		"there is no /nonexistent/mcpscope: run make build first")
	escape.Contains(t, makes(t, 0, "install", "BIN="+built), "installed mcpscope v0.1.0-test ")
	const mcpscope = "/usr/local/bin/mcpscope"
	root(t, 0, "ls", "/usr/local/libexec/mcpscope/mcpscopectl", "/usr/local/share/man/man1/mcpscope-run.1",
		"/usr/local/share/bash-completion/completions/mcpscope")
	escape.Contains(t, root(t, 0, "cat", "/usr/local/lib/systemd/system/mcpscope-sweep.service"),
		"ExecStart="+mcpscope+" sweep")
	used(t, mcpscope)

	wrapped(t, mcpscope)
	const gateway = "/etc/systemd/system/gateway.service"
	place(t, gateway, "[Service]\nExecStart=/bin/sleep infinity\n")
	root(t, 0, mcpscope, "units", "--unit", "gateway", "--install")
	tester(t, mcpscope, "units", "--install", "--now")
	escape.Contains(t, tester(t, mcpscope, "units", "--remove", "--now"), "disabled mcpscope-sweep.timer\n")
	tester(t, "sh", "-c", "! systemctl --user is-active mcpscope-sweep.timer")
	root(t, 2, "ls", settings) // an installation writes none
	place(t, settings, "term-grace = \"2s\"\n")
	escape.Contains(t, makes(t, 0, "uninstall"),
		"install mcpscope again, and run mcpscope unwrap", "gateway.service cannot start any more",
		"rm "+gateway+".d/zz-mcpscope.conf && systemctl daemon-reload")
	root(t, 0, "rm", "-r", gateway+".d")
	makes(t, 0, "install", "BIN="+built)
	unwrapped(t, mcpscope)
	makes(t, 0, "uninstall")
	root(t, 0, "rm", gateway, settings) // they stay
	same(t, before)
}

// An uninstall disables the units of its own files, and says so. Those of another installation go on.
func TestUninstallBesideAnotherInstallation(t *testing.T) {
	before := files(t)
	const timer = "mcpscope-sweep.timer"
	const beside = "PREFIX=/opt/beside"
	makes(t, 0, "install", "BIN="+built)
	makes(t, 0, "install", "BIN="+built, beside)
	root(t, 0, "systemctl", "daemon-reload")
	root(t, 0, "systemctl", "enable", "--now", timer)
	said := makes(t, 0, "uninstall", beside)
	escape.Contains(t, said, "removed mcpscope from /opt/beside")
	if strings.Contains(said, "disabled") {
		t.Errorf("it disables units of another installation: %s", said)
	}
	root(t, 0, "systemctl", "is-enabled", timer)
	root(t, 0, "systemctl", "is-active", timer)
	escape.Contains(t, makes(t, 0, "uninstall"), "disabled "+timer, "removed mcpscope from /usr/local")
	root(t, 3, "systemctl", "is-active", timer)
	same(t, before)
}

// In a home the units are where the manager of its user looks for them. A program that is not in PATH is noted.
func TestInstallInAHome(t *testing.T) {
	home := t.TempDir()
	local := home + "/.local"
	at := func(status int, args ...string) string {
		line := []string{"env", "HOME=" + home, "PREFIX=" + local, "make", "--no-print-directory", "-C", "../.."}
		return root(t, status, append(line, args...)...)
	}
	escape.Contains(t, at(0, "install", "BIN="+built), local+"/bin is not in PATH", "installed mcpscope ")
	escape.Contains(t, root(t, 0, "cat", local+"/share/systemd/user/mcpscope-sweep.service"), "ExecStart="+local+"/bin/mcpscope sweep")
	root(t, 2, "ls", local+"/lib/systemd")
	escape.Contains(t, at(0, "uninstall"), "removed mcpscope from "+local)
	if left := root(t, 0, "find", home, "-type", "f"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// The program that go install installs runs servers, and knows its version.
func TestGoInstall(t *testing.T) {
	escape.Contains(t, tester(t, byGo+"/mcpscope", "version"), "mcpscope "+version+" ")
	used(t, byGo+"/mcpscope")
}

// Distributions build position-independent programs: before the Go runtime and after it, one runs servers.
func TestPositionIndependentBuild(t *testing.T) {
	used(t, byPIE+"/mcpscope")
	for _, flag := range []string{"--replace", "--stderr=inherit", "--backend=tree"} {
		for _, u := range []host.User{host.Root, host.Tester} {
			cmd := host.Current(t).Command(u, byPIE+"/mcpscope", "run", flag, "--", "echo", "started")
			if said := host.Must(t, cmd); said != "started\n" {
				t.Errorf("%s: %q", flag, said)
			}
		}
	}
	cmd := host.Current(t).Command(host.Root, byPIE+"/mcpscope", "gateway", "--replace", "--", "echo", "started")
	if said := host.Must(t, cmd); said != "started\n" {
		t.Errorf("gateway: %q", said)
	}
}
