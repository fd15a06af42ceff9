// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

const exe = "/opt/mcpscope"

var both = Programs{exe, exe + "ctl"}

func gatewayOf(programs Programs) File {
	return override{Command: []string{"/usr/bin/hermes", "run"}, Identifier: "g"}.file("g.service", programs)
}

func TestEveryUnitNamesTheExecutable(t *testing.T) {
	for _, m := range []systemd.Kind{systemd.System, systemd.User} {
		var names []string
		for _, f := range append(OwnFiles(m, both), gatewayOf(both)) {
			names = append(names, f.Name)
			if f.Name == "mcpscope-sweep.service" && !strings.Contains(f.Text, " sweep --quiet") {
				t.Errorf("the timer fills the journal: %s", f.Text)
			}
			runs := strings.Contains(f.Name, ".service")
			if strings.Contains(f.Text, "abstract socket") { // mcpscope does not use one
				t.Errorf("%s: %s", f.Name, f.Text)
			}
			if strings.Contains(f.Text, "@MCPSCOPE") || strings.Contains(f.Text, exe+" ") != runs {
				t.Errorf("%s: %s", f.Name, f.Text)
			}
		}
		if want := []string{"mcpscope-metrics.service", "mcpscope-sweep.service", "mcpscope-sweep.timer", "g.service.d/zz-mcpscope.conf"}; !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
	}
}

// A unit of a user names the link in PATH, which an upgrade by Homebrew or Nix changes. A unit of root names
// the file: the link can belong to a user, who would then choose what root runs.
func TestProgramsFor(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Cellar/0.1.0/bin/mcpscope")
	tool := filepath.Join(dir, "Cellar/0.1.0/libexec/mcpscope/mcpscopectl")
	link := filepath.Join(dir, "bin/mcpscope")
	err := errors.Join(
		os.MkdirAll(filepath.Dir(file), 0o700), os.MkdirAll(filepath.Dir(link), 0o700),
		os.WriteFile(file, nil, 0o700), os.Symlink("../Cellar/0.1.0/bin/mcpscope", link))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(link))
	for manager, runner := range map[systemd.Kind]string{systemd.User: link, systemd.System: file} {
		want := Programs{Mcpscope: runner, Mcpscopectl: tool}
		if got := programsFor(manager, file, tool); got != want {
			t.Errorf("%s: %+v, want %+v", manager, got, want)
		}
	}
}
