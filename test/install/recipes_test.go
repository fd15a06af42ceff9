// SPDX-License-Identifier: Apache-2.0

package install

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// filesOfDeb returns the paths in the deb, below /usr and /etc as usr/ and etc/, with the names that
// packaging/files has.
func filesOfDeb(t *testing.T) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	for line := range strings.Lines(root(t, 0, "dpkg-deb", "--contents", archive(t, "new", "*.deb"))) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), " ./")
		if path == "" || strings.HasSuffix(path, "/") {
			continue
		}
		if strings.Contains(path, "/man/") {
			path = strings.TrimSuffix(path, ".gz")
		}
		switch path {
		case "usr/share/zsh/vendor-completions/_mcpscope":
			path = "usr/share/zsh/site-functions/_mcpscope"
		case "usr/share/doc/mcpscope/copyright":
			path = "usr/share/doc/mcpscope/NOTICE"
		}
		paths[path] = true
	}
	if len(paths) < 50 {
		t.Fatalf("the deb has %d files", len(paths))
	}
	return paths
}

// compareFiles fails the test unless the files below dir, with the prefix usr/ or another, are those of the deb.
// others may be there in addition.
func compareFiles(t *testing.T, dir, prefix string, others ...string) {
	t.Helper()
	want := filesOfDeb(t)
	for _, other := range others {
		want[other] = true
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		path = prefix + strings.TrimPrefix(path, dir+"/")
		if !want[path] {
			t.Errorf("the deb has no %s", path)
		}
		delete(want, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range want {
		t.Errorf("only the deb has %s", path)
	}
}

// unpacked returns a directory with the archive as its only entry, and the name of the entry.
func unpacked(t *testing.T) (dir, name string) {
	t.Helper()
	dir = host.Directory(t, host.Root)
	file := archive(t, "new", "*.tar.gz")
	root(t, 0, "tar", "-xzf", file, "-C", dir)
	return dir, strings.TrimSuffix(filepath.Base(file), ".tar.gz")
}

// sumOf returns the checksum of the archive.
func sumOf(t *testing.T) string {
	t.Helper()
	sum, _, _ := strings.Cut(root(t, 0, "sha256sum", archive(t, "new", "*.tar.gz")), " ")
	return sum
}

// machine is the processor as makepkg names it.
var machine = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

// TestArch: the PKGBUILD of a release names the archive with its checksum, and installs the files of the deb.
func TestArch(t *testing.T) {
	debian(t)
	recipe := archive(t, "new", "PKGBUILD")
	root(t, 0, "bash", "-n", recipe)
	source, name := unpacked(t)
	const makepkg = `set -eu
		CARCH=$1
		srcdir=$2
		pkgdir=$3
		. "$0"
		declare -n source=source_$CARCH sums=sha256sums_$CARCH
		echo "$pkgname $pkgver ${source[*]} ${sums[*]}"
		package >&2`
	target := host.Directory(t, host.Root)
	cmd := exec.Command("bash", "-c", makepkg, recipe, machine, source, target)
	cmd.Env = environ()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("package() of the PKGBUILD: %v", err)
	}
	number := strings.TrimPrefix(newer, "v")
	want := "mcpscope-bin " + number + " https://github.com/mcpscope/mcpscope/releases/download/" + newer + "/" + name + ".tar.gz " + sumOf(t) + "\n"
	if string(out) != want {
		t.Errorf("it has %q, want %q", out, want)
	}
	compareFiles(t, target, "",
		"usr/share/licenses/mcpscope-bin/LICENSE", "usr/share/licenses/mcpscope-bin/NOTICE")
}

// formula runs the installation of a formula as Homebrew does, which is not in Debian.
const formula = `require "pathname"
class Formula
  def self.desc(*); end
  def self.homepage(*); end
  def self.license(*); end
  def self.depends_on(*); end
  def self.test; end
  def self.on_intel; yield if ARGV[1] == "amd64"; end
  def self.on_arm; yield if ARGV[1] == "arm64"; end
  def self.version(*v); $version = v; end
  def self.url(*u); $url = u; end
  def self.sha256(*s); $sum = s; end
  def prefix; Pathname(ARGV[2]); end
  def system(*command); Kernel.system(*command, out: :err) or raise "#{command} failed"; end
end
load ARGV[0]
formula = Mcpscope.new
formula.install
formula.caveats.lines.size.positive? or raise "no caveats"
puts [$version, $url, $sum].join(" ")
`

// TestHomebrew: the formula of a release names the archive with its checksum, and installs the files of the deb.
func TestHomebrew(t *testing.T) {
	debian(t)
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("no ruby here, which reads the formula")
	}
	recipe := archive(t, "new", "mcpscope.rb")
	root(t, 0, "ruby", "-wc", recipe)
	source, name := unpacked(t)
	target := host.Directory(t, host.Root)
	cmd := exec.Command("ruby", "-e", formula, recipe, runtime.GOARCH, target)
	cmd.Dir = filepath.Join(source, name)
	cmd.Env = environ()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("install of the formula: %v", err)
	}
	want := strings.TrimPrefix(newer, "v") + " https://github.com/mcpscope/mcpscope/releases/download/" + newer + "/" + name + ".tar.gz " + sumOf(t) + "\n"
	if string(out) != want {
		t.Errorf("it has %q, want %q", out, want)
	}
	compareFiles(t, target, "usr/")
	nameLink(t, target)
}

// nameLink fails the test unless the units of a user name a link to the program, as Homebrew makes it, and not the
// file in the directory of a version.
func nameLink(t *testing.T, target string) {
	t.Helper()
	bin := host.Directory(t, host.Root)
	for _, dir := range []string{target, bin} {
		if err := os.Chmod(dir, 0o755); err != nil { // a user reads it
			t.Fatal(err)
		}
	}
	link := bin + "/mcpscope"
	if err := os.Symlink(target+"/bin/mcpscope", link); err != nil {
		t.Fatal(err)
	}
	escape.Contains(t, tester(t, "env", "PATH="+bin+":/usr/bin:/bin", "mcpscope", "units"), "ExecStart="+link+" sweep --quiet\n")
}
