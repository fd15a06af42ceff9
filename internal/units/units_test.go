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

func gatewayOf(by Programs) File {
	f, _ := dropIn(serviceOf(fragment("ExecStart=/usr/bin/hermes run\n")), by) // see TestDropIn
	return f
}

func TestEveryUnitNamesTheExecutable(t *testing.T) {
	for _, m := range []systemd.Kind{systemd.System, systemd.User} {
		var names []string
		for _, f := range append(All(m, both), gatewayOf(both)) {
			names = append(names, f.Name)
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

func TestCheckService(t *testing.T) {
	for name, want := range map[string]string{
		"hermes-gateway": "hermes-gateway.service", "a@b.service": "a@b.service", "../a": "", "a/b": "", "": "", ".service": "", "a\nb": "", "é": "",
		strings.Repeat("x", 300): "",
	} {
		if got, err := CheckService(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}
