// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

// ways are those of the README's to install mcpscope. install begins the line that does, and remove is
// what its section on removal says.
var ways = []struct {
	name, install, remove, bin string
	keeps                      bool // its settings, until it is purged
}{
	{"package", "sudo apt install ./", "sudo apt remove mcpscope", "/usr/bin/mcpscope", true},
	{"archive", "tar -xzf ", "sudo mcpscope-*/uninstall", "/usr/local/bin/mcpscope", false},
	{"source", "git clone ", "sudo make uninstall", "/usr/local/bin/mcpscope", false},
}

// actors stand for what is missing here: sudo, the release's page, git with a network, and Go. What make build would
// build has been built outside.
const actors = `sudo() { "$@"; }
git() { mkdir mcpscope && cp -r "$CHECKOUT"/packaging "$CHECKOUT"/docs "$CHECKOUT"/Makefile "$CHECKOUT"/LICENSE "$CHECKOUT"/*.md mcpscope &&
	mkdir mcpscope/internal && cp -r "$CHECKOUT"/internal/units mcpscope/internal; }
make() { if [ "$1" = build ]; then cp -r "$BUILT" bin; else command make --no-print-directory "$@"; fi; }
`

// Each way of the README's to install mcpscope ends in a wrapped server that ls shows, and in a
// removal that leaves no file.
func TestReadme(t *testing.T) {
	debian(t)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	_, installing, _ := strings.Cut(string(readme), "\n## Install\n")
	installing, _, _ = strings.Cut(installing, "\n## ")
	_, removing, _ := strings.Cut(string(readme), "\n## Uninstall\n")
	removing, _, _ = strings.Cut(removing, "\n## ")
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			line := regexp.MustCompile(`(?m)^\$ ` + regexp.QuoteMeta(way.install) + `.*$`).FindString(installing)
			if line == "" || !strings.Contains(removing, "`"+strings.TrimPrefix(way.remove, "sudo mcpscope-*/")+"`") {
				t.Fatalf("the README has not %q and %q", way.install, way.remove)
			}
			before := files(t)
			dir, err := os.MkdirTemp(host.Shared, "readme.")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) }) // with the host, at the latest
			for _, pattern := range []string{"*.deb", "*.tar.gz"} {
				file := archive(t, "new", pattern)
				if err := os.Symlink(file, filepath.Join(dir, filepath.Base(file))); err != nil {
					t.Fatal(err)
				}
			}
			enter := func(line string) {
				cmd := exec.Command("bash", "-e", "-c", actors+line)
				cmd.Dir = dir
				cmd.Stdin = strings.NewReader("y\n") // apt asks
				cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "CHECKOUT=" + checkout, "BUILT=" + built, "DEBIAN_FRONTEND=noninteractive"}
				says(t, 0, cmd)
			}
			enter(strings.TrimPrefix(line, "$ "))
			if found := says(t, 0, host.Current(t).Command(host.Tester, "sh", "-c", "PATH=/usr/local/bin:/usr/bin:/bin; command -v mcpscope")); found != way.bin+"\n" {
				t.Errorf("installed is %q", found)
			}
			used(t, way.bin)
			if way.name == "source" {
				way.remove = "cd mcpscope && " + way.remove
			}
			enter(way.remove)
			if way.keeps {
				enter("dpkg --purge mcpscope")
			}
			same(t, before)
			if _, err := os.Stat(way.bin); err == nil {
				t.Errorf("%s is left", way.bin)
			}
		})
	}
}
