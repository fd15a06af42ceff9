// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// nfpmEnv names the program that makes packages. The Makefile fetches it: tests have no network.
const nfpmEnv = "TESTS_NFPM"

// The versions of the packages. Before the first release the older one is this checkout with another number.
const (
	older = "v0.0.9"
	newer = "v0.1.0"
)

// buildPackages makes an old and a new package, and the new one again from a copy elsewhere, with other
// settings of the user who makes it.
func buildPackages(dir, nfpm string) error {
	copied, err := os.MkdirTemp("", "install-test.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	script := fmt.Sprintf(`set -e
		formats="deb rpm arch homebrew"
		! command -v npm || formats="$formats npm"
		build() { LDFLAGS="-s -w -X %[1]s/internal/programs.release=$2" VERSION=$2 FORMATS="$3" packaging/build "%[2]s/$1"; }
		build old %[3]s deb
		build new %[4]s "$formats"
		git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -c -T - | tar -x -C %[5]q
		cd %[5]q; umask 077; TZ=Asia/Tokyo; LC_ALL=C.UTF-8; export TZ LC_ALL
		build again %[4]s "$formats"`, module, dir, older, newer, copied)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GO=go", "NPM=npm", "NFPM="+nfpm, "PROCESSORS="+runtime.GOARCH,
		"COMMIT=0123456789ab", "SOURCE_DATE_EPOCH=1700000000")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make packages: %w: %s", err, out)
	}
	return nil
}

// debian needs the packages, and a dpkg to install them.
func debian(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(packages); err != nil {
		t.Skip("no packages: make test-install fetches nfpm and sets " + nfpmEnv)
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("no dpkg here")
	}
}

// archive finds a file by version and pattern.
func archive(t *testing.T, version, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(packages, version, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s/%s: %q, %v", version, pattern, found, err)
	}
	return found[0]
}

// The same sources give the same bytes; a package has the licenses of all that is linked, and checksums.
func TestPackagesAreWhole(t *testing.T) {
	debian(t)
	first := root(t, 0, "cat", packages+"/new/SHA256SUMS")
	second := root(t, 0, "cat",
		packages+"/again/SHA256SUMS")
	if first != second {
		t.Errorf("%s\nand then\n%s", first, second)
	}
	escape.Contains(t, first, ".deb\n", ".rpm\n", ".tar.gz\n", ".cdx.json\n")
	root(t, 0, "sh", "-c", "cd "+packages+"/new && sha256sum --check --quiet SHA256SUMS")
	escape.Contains(t, root(t, 0, "dpkg-deb", "--contents", archive(t, "new", "*.deb")),
		"./usr/share/doc/mcpscope/THIRD-PARTY\n",
		"./usr/share/doc/mcpscope/copyright\n", "./usr/share/man/man7/mcpscope.7.gz\n", "./usr/share/zsh/vendor-completions/_mcpscope\n",
		"./usr/lib/systemd/system/mcpscope-sweep.timer\n", "./usr/libexec/mcpscope/mcpscopectl\n")
	escape.Contains(t, root(t, 0, "cat", archive(t, "new", "*.cdx.json")), `"pkg:golang/github.com/godbus/dbus/v5@v`)
}

// A server runs below the installed mcpscope, with a process that has left its session. It ignores the end of
// stdin.
type server struct {
	*escape.Talk
	name    string
	user    host.User
	members []*escape.Process
}

var ends = []struct {
	name string
	end  func(t *testing.T, s *server)
}{
	{"stdin", func(_ *testing.T, s *server) { _ = s.Stdin.Close() }},
	{"kill", func(_ *testing.T, s *server) { _ = s.Cmd.Process.Kill() }},
	{"TERM", func(_ *testing.T, s *server) { _ = s.Cmd.Process.Signal(unix.SIGTERM) }},
	{"stop", func(t *testing.T, s *server) {
		says(t, 0, host.Current(t).Command(s.user, "/usr/bin/mcpscope", "stop", s.name))
	}},
}

// crew starts a server for each end, two of root's and two of a user's.
func crew(t *testing.T) (all []*server) {
	t.Helper()
	for i, e := range ends {
		s := &server{name: e.name, user: []host.User{host.Root, host.Tester}[i%2]}
		cmd := host.Current(t).Command(s.user, "/usr/bin/mcpscope", "run", "--name", s.name, "--", "sh", "-c",
			`setsid sleep infinity & echo $! $$; exec sleep infinity`)
		s.Talk = escape.StartTalk(t, cmd, cmd.Start)
		var pids [2]int
		if _, err := fmt.Sscan(s.Line(), &pids[0], &pids[1]); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			p, err := escape.OpenProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			s.members = append(s.members, p)
		}
		all = append(all, s)
	}
	return all
}

// outlive changes the package: no server is lost by it, the commands that are there then know each of them,
// and each end leaves nothing.
func outlive(t *testing.T, what string, all []*server, change func()) {
	t.Helper()
	change()
	for _, s := range all {
		for _, p := range s.members {
			if p.Ended(0) {
				t.Errorf("%s: %s has lost %d", what, s.name, p.PID)
			}
		}
	}
	_, removed := os.Stat("/usr/bin/mcpscope")
	if removed == nil {
		listed := root(t, 0, "/usr/bin/mcpscope", "ls", "--all-users", "--json")
		for _, s := range all {
			escape.Contains(t, listed, `"name": "`+s.name+`"`)
		}
		if said := root(t, 0, "/usr/bin/mcpscope", "sweep", "--all-users"); strings.Contains(said, "killed") {
			t.Errorf("%s: a sweep stops servers in use: %s", what, said)
		}
	}
	for i, s := range all {
		if ends[i].name == "stop" && removed != nil {
			_ = s.Stdin.Close() // a removed command stops no server
		} else {
			ends[i].end(t, s)
		}
	}
	for _, s := range all {
		for _, p := range s.members {
			if !p.Ended(escape.Patience) {
				t.Errorf("%s: %s has left %s", what, s.name, escape.Describe(p.PID))
			}
		}
	}
}

// Installed, upgraded, downgraded, removed and purged while servers run.
func TestDebianPackage(t *testing.T) {
	debian(t)
	before := files(t)
	t.Cleanup(func() { _ = exec.Command("dpkg", "--purge", "--force-all", "mcpscope").Run() }) // it may be gone
	install := func(name, version string) string {
		t.Helper()
		said := root(t, 0, "dpkg", "--install", archive(t, name, "*.deb"))
		escape.Contains(t, "\n"+root(t, 0, "/usr/bin/mcpscope", "version"), "\nmcpscope "+version+" ",
			"\nmcpscopectl "+version+" ")
		return said
	}
	const next = "  mcpscope sweep --dry-run   list servers that clients have left behind\n  mcpscope wrap "
	escape.Contains(t, install("old", older), next)
	root(t, 2, "ls", settings)                                                        // a package has none
	place(t, settings, "[defaults]\neof-grace = \"300ms\"\nterm-grace = \"300ms\"\n") // and the test is shorter
	outlive(t, "upgrade", crew(t), func() {
		if said := install("new", newer); strings.Contains(said, next) {
			t.Errorf("at an upgrade the package says %s", said)
		}
	})
	outlive(t, "downgrade", crew(t), func() { install("old", older) })
	escape.Contains(t, root(t, 0, "cat", settings), "300ms")

	wrapped(t, "/usr/bin/mcpscope")
	all := crew(t)
	outlive(t, "removal", all, func() {
		escape.Contains(t, root(t, 0, "dpkg", "--remove", "mcpscope"),
			"clients that were wrapped cannot start their servers any more\n",
			"install mcpscope again, and run mcpscope unwrap as each user\n")
	})
	install("again", newer)
	unwrapped(t, "/usr/bin/mcpscope")
	root(t, 0, "dpkg", "--remove", "mcpscope")
	root(t, 0, "dpkg", "--purge", "mcpscope")
	root(t, 0, "rm", settings) // they stay: no package owns them
	same(t, before)
}

// The scripts of the archive explain themselves, and change nothing for an argument that they do not know.
func TestArchiveScripts(t *testing.T) {
	debian(t)
	dir := host.Directory(t, host.Root)
	root(t, 0, "tar", "-xzf", archive(t, "new", "*.tar.gz"), "-C", dir, "--strip-components=1")
	before := files(t)
	for script, variable := range map[string]string{"install": "  PREFIX=DIR ", "uninstall": "  PREFIX=DIR"} {
		file := filepath.Join(dir, script)
		for _, help := range []string{"--help", "-h"} {
			escape.Contains(t, root(t, 0, file, help), "Usage: sudo ./"+script+"\n", variable)
		}
		for _, argument := range []string{"--prefix=/opt", "bin", "--", ""} {
			escape.Contains(t, root(t, 2, file, argument), script+": unknown argument "+argument+": nothing is changed; "+file+" --help")
		}
		escape.Contains(t, root(t, 2, file, "--help", "bin"), "nothing is changed")
	}
	uninstall := filepath.Join(dir, "uninstall")
	escape.Contains(t, root(t, 0, uninstall), "mcpscope is not installed below /usr/local\n")
	root(t, 0, "chmod", "-R", "a+rX", dir)
	install := filepath.Join(dir, "install")
	escape.Contains(t, root(t, 1, "setpriv", "--reuid=65534", "--clear-groups", "env", "PREFIX=/opt/here", install),
		install+": cannot write to /opt: use sudo, or PREFIX=~/.local "+install+"\n")
	same(t, before)
}

// ways are those of the README's to install mcpscope. install begins the line that does, and remove is in its
// section on removal.
var ways = []struct{ name, install, remove, bin string }{
	{"package", "sudo apt install ./", "sudo apt remove mcpscope", "/usr/bin/mcpscope"},
	{"archive", "tar -xzf ", "sudo mcpscope-*/uninstall", "/usr/local/bin/mcpscope"},
	{"source", "git clone ", "sudo make uninstall", "/usr/local/bin/mcpscope"},
}

// stubs stand for sudo, the release's page, git with a network, and Go. make build takes the programs built
// outside.
const stubs = `sudo() { "$@"; }
git() { mkdir mcpscope && cp -r "$CHECKOUT"/packaging "$CHECKOUT"/docs "$CHECKOUT"/Makefile "$CHECKOUT"/LICENSE "$CHECKOUT"/NOTICE "$CHECKOUT"/*.md mcpscope &&
	mkdir mcpscope/internal && cp -r "$CHECKOUT"/internal/units mcpscope/internal; }
make() { if [ "$1" = build ]; then cp -r "$BUILT" bin; else command make --no-print-directory "$@"; fi; }
[ ! -e mcpscope ] || cd mcpscope
`

// Each way ends in a wrapped server that ls shows, and in a removal that leaves no file.
func TestReadme(t *testing.T) {
	debian(t)
	readme := root(t, 0, "cat", "../../README.md")
	section := func(name string) string {
		_, text, _ := strings.Cut(readme, "\n## "+name+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		return text
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			line := regexp.MustCompile(`(?m)^\$ ` + regexp.QuoteMeta(way.install) + `.*$`).FindString(section("Install"))
			if line == "" || !strings.Contains(section("Uninstall"),
				"`"+strings.TrimPrefix(way.remove, "sudo mcpscope-*/")+"`") {
				t.Fatalf("the README has not %q and %q", way.install, way.remove)
			}
			before := files(t)
			dir := host.Directory(t, host.Root)
			for _, pattern := range []string{"*.deb", "*.tar.gz"} {
				file := archive(t, "new", pattern)
				if err := os.Symlink(file, filepath.Join(dir, filepath.Base(file))); err != nil {
					t.Fatal(err)
				}
			}
			enter := func(line string) {
				cmd := exec.Command("bash", "-e", "-c", stubs+line)
				cmd.Dir = dir
				cmd.Stdin = strings.NewReader("y\n") // apt asks
				cmd.Env = environ("CHECKOUT="+checkout, "BUILT="+built)
				says(t, 0, cmd)
			}
			enter(strings.TrimPrefix(line, "$ "))
			if found := tester(t, "sh", "-c",
				"PATH=/usr/local/bin:/usr/bin:/bin; command -v mcpscope"); found != way.bin+"\n" {
				t.Errorf("installed is %q", found)
			}
			used(t, way.bin)
			enter(way.remove)
			same(t, before)
		})
	}
}
