// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// A unit that a package has is not copied: the copy would stay when the package goes. One for another
// mcpscope is, and a copy that is there is kept up to date.
func TestInstallOwnBesideAPackage(t *testing.T) {
	dir, ofPackage := t.TempDir(), t.TempDir()
	own := OwnFiles(systemd.System, both)
	for _, file := range OwnFiles(systemd.System, both) {
		if err := os.WriteFile(file.Path(ofPackage), []byte(file.Text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	results := func(files []File) (all []Result) {
		for _, r := range InstallOwn(files, dir, []string{"/nonexistent", ofPackage}) {
			if r.Err != nil {
				t.Error(r.Err)
			}
			all = append(all, r.Result)
		}
		return all
	}
	if got, want := results(own), []Result{Packaged, Packaged, Packaged}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("copied: %q", left)
	}
	other := OwnFiles(systemd.System, Programs{"/other", "/otherctl"})
	if got, want := results(other), []Result{Installed, Installed, Packaged}; !slices.Equal(got, want) {
		t.Errorf("for another program: %q, want %q", got, want)
	}
	if got, want := results(own), []Result{Replaced, Replaced, Packaged}; !slices.Equal(got, want) {
		t.Errorf("over copies: %q, want %q", got, want)
	}
}
