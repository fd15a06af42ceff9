// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// ownUnits are those of mcpscope in a directory, as a manager has them that has read some elsewhere.
func ownUnits(dir string, found map[string]systemd.Unit) OwnUnits {
	return OwnUnits{Dir: dir, Files: OwnFiles(systemd.System, both), found: found}
}

func resultsOf(t *testing.T, results []FileResult) (all []Result) {
	t.Helper()
	for _, r := range results {
		if r.Err != nil {
			t.Error(r.Err)
		}
		all = append(all, r.Result)
	}
	return all
}

// A unit that a package has is not copied: the copy would stay when the package goes. A copy that is there is kept up
// to date.
func TestInstallOwnBesideAPackage(t *testing.T) {
	dir := t.TempDir()
	own := ownUnits(dir, map[string]systemd.Unit{
		"mcpscope-sweep.service": {Fragment: dir + "/mcpscope-sweep.service"},
		"mcpscope-sweep.timer":   {Fragment: "/usr/lib/systemd/system/mcpscope-sweep.timer"},
	})
	if got, want := resultsOf(t, own.Install()), []Result{Installed, Installed, Packaged}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := resultsOf(t, own.Remove()), []Result{Removed, Removed, Packaged}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The units that run are stopped, of a package as well. The unit of an edited file goes on.
func TestStopStep(t *testing.T) {
	dir := t.TempDir()
	if stop, isNeeded := ownUnits(dir, nil).StopStep(); isNeeded {
		t.Errorf("without a unit: %s", stop.Command)
	}
	running := systemd.Unit{ActiveState: "active"}
	ended := systemd.Unit{ActiveState: "inactive"}
	own := ownUnits(dir, map[string]systemd.Unit{
		"mcpscope-metrics.service": running, "mcpscope-sweep.service": ended, "mcpscope-sweep.timer": running,
	})
	stop, isNeeded := own.StopStep()
	if !isNeeded || !strings.HasSuffix(stop.Command, " stop mcpscope-metrics.service mcpscope-sweep.timer") {
		t.Errorf("%s, %v", stop.Command, isNeeded)
	}
	if err := os.WriteFile(filepath.Join(dir, "mcpscope-metrics.service"), []byte("[Service]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stop, _ := own.StopStep(); !strings.HasSuffix(stop.Command, " stop mcpscope-sweep.timer") {
		t.Errorf("beside an edited file: %s", stop.Command)
	}
}
