// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// The units whose files are removed are stopped. The unit of an edited file goes on.
func TestStopStep(t *testing.T) {
	dir := t.TempDir()
	files := OwnFiles(systemd.Own(), both)
	if stop, isInstalled := StopStep(files, dir); isInstalled || stop.String() != systemctlStep("stop").String() {
		t.Errorf("without a file: %s, %v", stop, isInstalled)
	}
	if results := InstallOwn(files, dir, nil); !AnyChanged(results) {
		t.Fatalf("%+v", results)
	}
	if err := os.WriteFile(files[0].Path(dir), []byte("[Service]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := systemctlStep("stop", "mcpscope-sweep.service", "mcpscope-sweep.timer").String()
	if stop, isInstalled := StopStep(files, dir); !isInstalled || stop.String() != want || stop.MayFail {
		t.Errorf("%+v, %v, want %s", stop, isInstalled, want)
	}
}
