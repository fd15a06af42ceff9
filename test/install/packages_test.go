// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// packages are two versions of the package: <packages>/old and <packages>/new.
const packages = host.Shared + "/packages"

// The versions of the packages. Where there is no release before this one the older is
// this checkout with another number.
const (
	older = "v0.0.9"
	newer = "v0.1.0"
)

// patience is for what happens at once when all is well.
const patience = 30 * time.Second

// buildPackages makes both, and the new one a second time, from a copy in another place under other
// settings of the user who makes them.
func buildPackages(dir string) error {
	copied, err := os.MkdirTemp("", "install-test.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	copying := exec.Command("sh", "-c", `git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh | tar -c --null -T - | tar -x -C "$0"`, copied)
	copying.Dir = "../.."
	if out, err := copying.CombinedOutput(); err != nil {
		return fmt.Errorf("copy the checkout: %w: %s", err, out)
	}
	again := makePackages(copied, filepath.Join(dir, "again"), newer, "deb rpm apk")
	again.Args = append([]string{"sh", "-c", `umask 077; exec make "$@"`}, again.Args...)
	again.Path, again.Err = "/bin/sh", nil
	again.Env = append(os.Environ(), "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8")
	for _, cmd := range []*exec.Cmd{
		makePackages("../..", filepath.Join(dir, "old"), older, "deb"), makePackages("../..", filepath.Join(dir, "new"), newer, "deb rpm apk"), again,
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make packages: %w: %s", err, out)
		}
	}
	return nil
}

func makePackages(checkout, dist, version, formats string) *exec.Cmd {
	return exec.Command("make", "--no-print-directory", "-C", checkout, "packages", "VERSION="+version, "COMMIT=0123456789ab", "EPOCH=1700000000", "DIST="+dist,
		"PROCESSORS="+runtime.GOARCH, "FORMATS="+formats)
}

// Two builds of the same sources give the same bytes.
func TestPackagesAreReproducible(t *testing.T) {
	debian(t)
	first, err := os.ReadFile(filepath.Join(packages, "new", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(packages, "again", "SHA256SUMS"))
	if err != nil || string(first) != string(second) {
		t.Errorf("%v:\n%s\nand then\n%s", err, first, second)
	}
	for _, kind := range []string{".deb\n", ".rpm\n", ".apk\n", ".tar.gz\n", ".spdx.json\n"} {
		if strings.Count(string(first), kind) != 1 {
			t.Errorf("there is not one %s", kind)
		}
	}
}

// debian needs the packages, and a dpkg to install them.
func debian(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(packages); err != nil {
		t.Skip("packages take long to make: make test-full")
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("no dpkg here")
	}
}

func dpkg(t *testing.T, status int, args ...string) string {
	t.Helper()
	cmd := exec.Command("dpkg", args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"}
	return says(t, status, cmd)
}

func archive(t *testing.T, name, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(packages, name, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s/%s: %q, %v", name, pattern, found, err)
	}
	return found[0]
}

// installed is the version that answers.
func installed(t *testing.T, want string) {
	t.Helper()
	if said := says(t, 0, exec.Command("/usr/bin/mcpscope", "version")); !strings.HasPrefix(said, "mcpscope "+want+" ") || !strings.Contains(said, "\nmcpscopectl "+want+" ") {
		t.Fatalf("want %s of both: %s", want, said)
	}
}

// server is one that runs below the installed mcpscope, with a process that has left its session.
type server struct {
	name    string
	user    host.User
	cmd     *exec.Cmd
	stdin   io.Closer
	members []*escape.Process
}

// serverOf starts one, by a client that holds its stdin open. It ignores the end of that.
func serverOf(t *testing.T, u host.User, name string) *server {
	t.Helper()
	s := &server{name: name, user: u}
	s.cmd = host.Current(t).Command(u, "/usr/bin/mcpscope", "run", "--name", name, "--", "sh", "-c", `setsid sleep 3000 & echo $!; echo $$; exec sleep 3000`)
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = s.cmd.Wait() // however it ended
	})
	lines := bufio.NewScanner(stdout)
	for len(s.members) < 2 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		p, err := escape.OpenProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		s.members = append(s.members, p)
	}
	if len(s.members) < 2 {
		t.Fatalf("%s did not start: %v", name, lines.Err())
	}
	return s
}

// lost counts members that must live.
func (s *server) lost(t *testing.T, when string) (n int) {
	t.Helper()
	for _, p := range s.members {
		if p.Ended(0) {
			n++
			t.Errorf("%s: %s has lost %d", when, s.name, p.PID)
		}
	}
	return n
}

// left counts members that must end.
func (s *server) left(t *testing.T, why string) (n int) {
	t.Helper()
	for _, p := range s.members {
		if !p.Ended(patience) {
			n++
			t.Errorf("%s: %s has left %s", why, s.name, escape.Describe(p.PID))
		}
	}
	return n
}

// ends are the ways to end a server of one version while another one is installed.
var ends = []struct {
	name string
	end  func(t *testing.T, s *server)
}{
	{"stdin", func(_ *testing.T, s *server) { _ = s.stdin.Close() }},
	{"kill", func(_ *testing.T, s *server) { _ = s.cmd.Process.Kill() }},
	{"TERM", func(_ *testing.T, s *server) { _ = s.cmd.Process.Signal(syscall.SIGTERM) }},
	{"stop", func(t *testing.T, s *server) {
		says(t, 0, host.Current(t).Command(s.user, "/usr/bin/mcpscope", "stop", s.name))
	}},
}

// emulated tells whether this is a virtual machine of test/vm.
var emulated = os.Getenv("VM_SUITE") != ""

// crew starts a server for each end, of root's and of a user's; in a virtual machine one of either.
func crew(t *testing.T, version string) []*server {
	t.Helper()
	var all []*server
	for n, u := range []host.User{host.Root, host.Tester} {
		for i, e := range ends {
			if emulated && i/2 != n { // there each start of a program takes its time
				continue
			}
			all = append(all, serverOf(t, u, version+"-"+u.Name+"-"+e.name))
		}
	}
	return all
}

// outlive does something to the package: no server is lost by it, the commands of the version that
// is there then know each of them, and each end leaves nothing.
func outlive(t *testing.T, what string, all []*server, do func()) {
	t.Helper()
	do()
	lost, left := 0, 0
	for _, s := range all {
		lost += s.lost(t, what)
	}
	_, err := os.Stat("/usr/bin/mcpscope")
	if err == nil {
		said := says(t, 0, exec.Command("/usr/bin/mcpscope", "ls", "--all-users", "--format", "{{.Name}}"))
		for _, s := range all {
			if !strings.Contains(said, s.name+"\n") {
				t.Errorf("%s: ls does not know %s: %s", what, s.name, said)
			}
		}
		if said := says(t, 0, exec.Command("/usr/bin/mcpscope", "sweep", "--all-users")); strings.Contains(said, "killed") {
			t.Errorf("%s: a sweep ends servers in use: %s", what, said)
		}
	}
	for i, s := range all {
		if e := ends[i%len(ends)]; err == nil || e.name != "stop" { // a removed command stops nobody
			e.end(t, s)
		} else {
			_ = s.stdin.Close()
		}
	}
	for _, s := range all {
		left += s.left(t, what+", "+s.name)
	}
	line := fmt.Sprintf("the deb's %s: %d servers, %d processes, %d lost, %d left\n", what, len(all), 2*len(all), lost, left)
	if err := escape.AppendTable(line); err != nil {
		t.Error(err)
	}
}

// Installed, upgraded, downgraded, removed and purged while servers run.
func TestDebianPackage(t *testing.T) {
	debian(t)
	before := files(t)
	t.Cleanup(func() {
		_ = exec.Command("dpkg", "--purge", "--force-all", "mcpscope").Run() // it may be gone
	})
	dpkg(t, 0, "--install", archive(t, "old", "*.deb"))
	installed(t, older)
	settings := "/etc/mcpscope/mcpscope.toml"
	if err := os.WriteFile(settings, []byte("[defaults]\neof-grace = \"300ms\"\nterm-grace = \"300ms\"\n"), 0o644); err != nil { // and the test is shorter
		t.Fatal(err)
	}

	outlive(t, "upgrade", crew(t, "old"), func() {
		dpkg(t, 0, "--install", archive(t, "new", "*.deb"))
		installed(t, newer)
	})
	outlive(t, "downgrade", crew(t, "new"), func() {
		dpkg(t, 0, "--install", archive(t, "old", "*.deb"))
		installed(t, older)
	})
	if text, err := os.ReadFile(settings); err != nil || !strings.Contains(string(text), "300ms") {
		t.Errorf("the settings were not kept: %v, %s", err, text)
	}

	file := host.Tester.Home + "/.claude.json"
	place(t, host.Tester, file, client)
	h := host.Current(t)
	says(t, 0, h.Command(host.Tester, "/usr/bin/mcpscope", "wrap", "claude-code", "--yes"))
	all := crew(t, "last")
	said := dpkg(t, 1, "--remove", "mcpscope")
	for _, want := range []string{file + ": 1 wrapped server of Claude Code: time\n", "sudo -H -u tester mcpscope unwrap --all\n", "not removed"} {
		if !strings.Contains(said, want) {
			t.Errorf("a removal that breaks a client does not say %q: %s", want, said)
		}
	}
	installed(t, older)
	says(t, 0, h.Command(host.Tester, "/usr/bin/mcpscope", "unwrap", "--all", "--yes"))
	outlive(t, "removal", all, func() { dpkg(t, 0, "--remove", "mcpscope") })
	if _, err := os.Stat(settings); err != nil {
		t.Errorf("a removal takes the settings: %v", err)
	}
	dpkg(t, 0, "--purge", "mcpscope")
	same(t, before)
}

// A package has what its users have a right to: the licenses of everything that is linked, checksums.
func TestPackagesAreWhole(t *testing.T) {
	debian(t)
	for _, name := range []string{"old", "new"} {
		sums := exec.Command("sha256sum", "--check", "--quiet", "SHA256SUMS")
		sums.Dir = filepath.Join(packages, name)
		says(t, 0, sums)
	}
	listed := says(t, 0, exec.Command("dpkg-deb", "--contents", archive(t, "new", "*.deb")))
	for _, want := range []string{"./usr/share/doc/mcpscope/THIRD-PARTY\n", "./usr/share/doc/mcpscope/copyright\n", "./usr/share/man/man7/mcpscope.7.gz\n",
		"./usr/share/zsh/vendor-completions/_mcpscope\n", "./usr/lib/systemd/system/mcpscope-sweep.timer\n", "./usr/libexec/mcpscope/mcpscopectl\n"} {
		if !strings.Contains(listed, want) {
			t.Errorf("the package has no %s", want)
		}
	}
	sbom, err := os.ReadFile(archive(t, "new", "*.spdx.json"))
	if err != nil || !strings.Contains(string(sbom), `"pkg:golang/github.com/godbus/dbus/v5@v`) || strings.Contains(string(sbom), `"licenseDeclared": "NOASSERTION"`) {
		t.Errorf("%v: a component is missing, or its license is not known", err)
	}
}
