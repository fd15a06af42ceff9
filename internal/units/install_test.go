// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

// each step works on the result of the steps before
func TestInstallAndRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "units")
	old := gatewayOf(Programs{"/old", "/oldctl"})
	file := gatewayOf(both)
	path := filepath.Join(dir, file.Name)
	link := filepath.Join(dir, "x.wants", "g.service")
	change := func(text string) func() error {
		return func() error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	mask := func() error { return errors.Join(os.RemoveAll(path), os.Symlink("/dev/null", path)) }
	enable := func() error {
		return errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(path, link), os.Symlink("/other", link+"2"))
	}
	for i, step := range []struct {
		before func() error
		do     func(File, string) (Result, error)
		file   File
		want   Result
		err    error
	}{
		{nil, File.Remove, file, Absent, nil},
		{nil, File.Install, old, Installed, nil},
		{nil, File.Install, file, Replaced, nil},
		{change(sealed("[Service]\n") + "KillMode=none\n"), File.Install, file, "", ErrChanged},
		{nil, File.Remove, file, "", ErrChanged},
		{change("[Service]\n"), File.Remove, file, "", ErrChanged},
		{mask, File.Install, file, "", ErrChanged},
		{func() error { return os.Remove(path) }, File.Install, file, Installed, nil},
		{nil, File.Install, file, Unchanged, nil},
		{enable, File.Remove, file, Removed, nil},
		{nil, File.Remove, file, Absent, nil},
	} {
		var before []byte
		if step.before != nil {
			if err := step.before(); err != nil {
				t.Fatal(err)
			}
		}
		before, _ = os.ReadFile(path)
		got, err := step.do(step.file, dir)
		if got != step.want || !errors.Is(err, step.err) {
			t.Fatalf("step %d: %s, %v; want %s, %v", i, got, err, step.want, step.err)
		}
		after, _ := os.ReadFile(path)
		want := sealed(step.file.Text)
		switch got {
		case Removed, Absent:
			want = ""
		case "":
			want = string(before)
		}
		if string(after) != want {
			t.Errorf("step %d: %q, want %q", i, after, want)
		}
	}
	if _, err := os.Lstat(link); err == nil {
		t.Error("it is enabled still")
	}
	if _, err := os.Lstat(link + "2"); err != nil {
		t.Errorf("another unit's link: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); !slices.Equal(left, []string{filepath.Dir(link)}) {
		t.Errorf("left: %q", left)
	}
}

// A unit of a package with the same name, which was enabled before, is not left enabled.
func TestRemoveDisablesThePackagesUnit(t *testing.T) {
	dir := t.TempDir()
	file := File{Name: "mcpscope-metrics.service", Text: "[Service]\n"}
	wants := filepath.Join(dir, "multi-user.target.wants")
	link, other := filepath.Join(wants, file.Name), filepath.Join(wants, "other.service")
	err := errors.Join(
		os.Mkdir(wants, 0o700),
		os.Symlink("/usr/lib/systemd/system/"+file.Name, link),
		os.Symlink("/usr/lib/systemd/system/other.service", other),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Install(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(wants + "/*"); !slices.Equal(left, []string{other}) {
		t.Errorf("left: %q", left)
	}
}

// Without a copy the unit of a package is disabled all the same: an installation has enabled it.
func TestRemoveWithoutACopy(t *testing.T) {
	dir := t.TempDir()
	timer := File{Name: "mcpscope-sweep.timer"}
	wants := filepath.Join(dir, "timers.target.wants")
	link := filepath.Join(wants, timer.Name)
	err := errors.Join(os.Mkdir(wants, 0o700), os.Symlink("/usr/lib/systemd/user/"+timer.Name, link))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Result{Disabled, Absent} {
		if got, err := timer.Remove(dir); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link is left")
	}
}

// Each file has a result, and one that cannot be changed does not keep the others from it.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	files := []File{{Name: "a.service", Text: "[Service]\n"}, {Name: "b.service", Text: "[Service]\n"}}
	if err := os.WriteFile(files[0].Path(dir), []byte("[Unit]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		do      func(OwnUnits) []FileResult
		want    Result // of the second file
		changes bool
	}{
		{OwnUnits.Remove, Absent, false},
		{OwnUnits.Install, Installed, true},
		{OwnUnits.Install, Unchanged, false},
		{OwnUnits.Remove, Removed, true},
	} {
		results := c.do(OwnUnits{Dir: dir, Files: files})
		if len(results) != 2 || !errors.Is(results[0].Err, ErrChanged) || results[0].Path != filepath.Join(dir, "a.service") {
			t.Fatalf("%+v", results)
		}
		if results[1].Err != nil || results[1].Result != c.want || AnyChanged(results) != c.changes {
			t.Errorf("%+v, want %s", results[1], c.want)
		}
	}
}

// A file that was changed stays, and the commands that replace it are the remedy.
func TestRemedyForAChangedFile(t *testing.T) {
	systemctl := systemctl()
	for name, unit := range map[string]string{
		"g.service.d/zz-mcpscope.conf": "g",
		"mcpscope-metrics.service":     "mcpscope-metrics", "mcpscope-sweep.timer": "mcpscope-sweep.timer",
	} {
		dir := t.TempDir()
		file := File{Name: name}
		if _, err := file.Install(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file.Path(dir), []byte(sealed("[Service]\n")+"Nice=5\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		want := "rm " + file.Path(dir) + " && " + systemctl + " daemon-reload && " +
			systemctl + " try-restart " + unit + "; put changes into: " + systemctl + " edit " + unit
		_, installErr := file.Install(dir)
		_, removeErr := file.Remove(dir)
		for _, err := range []error{installErr, removeErr} {
			if !errors.Is(err, ErrChanged) || remedy.Of(err) != want {
				t.Errorf("%s: %v, remedy %s, want %s", name, err, remedy.Of(err), want)
			}
		}
	}
}

// A unit whose links cannot be removed keeps its file, so that the next removal finds both.
func TestAUnitThatCannotBeDisabled(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		file := File{Name: "x.service", Text: "[Service]\n"}
		if _, err := file.Install(dir); err != nil {
			t.Fatal(err)
		}
		wants := filepath.Join(dir, "default.target.wants")
		if err := errors.Join(os.Mkdir(wants, 0o700), os.Symlink(file.Path(dir), filepath.Join(wants, file.Name)), os.Chmod(wants, 0o500)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(wants, 0o700) }) // otherwise the directory cannot be removed
		if result, err := file.Remove(dir); !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s, %v", result, err)
		}
		if _, err := os.Stat(file.Path(dir)); err != nil {
			t.Error(err)
		}
	})
}
