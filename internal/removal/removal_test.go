// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/units"
)

// TestMain is the process of a user whose files cannot be searched.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[2] == "--own" {
		fmt.Fprintln(os.Stderr, "no files today")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A package must not be removed if the files of one user could not be searched.
func TestAnUnsearchedUserIsAnError(t *testing.T) {
	home := t.TempDir()
	link := filepath.Join(t.TempDir(), "ann") // to another disk
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{home, link} {
		ann := fmt.Sprintf("ann:x:%d:%d:Ann:%s:/bin/sh\n", os.Getuid(), os.Getgid(), home)
		err := (&finding{}).addUsers("nobody:x:9:9::/nonexistent:/bin/sh", ann) // the last line is open
		if err == nil || !strings.Contains(err.Error(), "ann") {
			t.Errorf("home %s: error %v", home, err)
		}
	}
}

// Homes of users that are in no file are searched.
func TestHomesBelow(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give a directory away")
	}
	dir := t.TempDir()
	for path, uid := range map[string]int{"ann": 1234, "domain": 0, "domain/ben": 1235, "domain/of": 0, "domain/of/cy": 1236} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, path), uid, 77); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "domain/of/cy"), filepath.Join(dir, "cy")); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("ann:x:1234:77::%s/ann:\ncy:x:1236:77::%[1]s/cy:\nben:x:1235:77::%[1]s/domain/ben:\n", dir)
	if got := homesBelow(dir, true); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The command for a drop-in also takes its running gateway off mcpscope.
func TestRemedyForADropIn(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/g.service.d", 0o700); err != nil {
		t.Fatal(err)
	}
	text := "[Service]\nExecStart=\nExecStart=mcpscope gateway -- /bin/g\n" + units.Written + "\n"
	if err := os.WriteFile(dir+"/g.service.d/zz-mcpscope.conf", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &finding{}
	f.addUnits(dir, "sudo ")
	want := []string{"sudo mcpscope units --unit g.service --remove --now"}
	if !slices.Equal(f.remedies, want) {
		t.Errorf("%q, want %q", f.remedies, want)
	}
}

// A unit whose failure systemd ignores works without mcpscope.
func TestUnitsThatStartIt(t *testing.T) {
	dir := t.TempDir()
	for name, line := range map[string]string{
		"a.service": "ExecStart=mcpscope run -- x", "b.service": "ExecStopPost=-mcpscope sweep",
		"c.service": "ExecStart = +:mcpscope gateway -- x", "d.service": "ExecStart=/bin/x mcpscope",
		"e.service": "ExecStart=/bin/sh -c 'exec mcpscope gateway -- x'", "mcpscope-metrics.service": "ExecStart=mcpscope metrics",
	} {
		if err := os.WriteFile(dir+"/"+name, []byte("[Service]\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &finding{}
	f.addUnits(dir, "")
	want := []string{dir + "/a.service: a unit that starts mcpscope", dir + "/c.service: a unit that starts mcpscope", dir + "/e.service: a unit that starts mcpscope"}
	if !slices.Equal(f.lines, want) {
		t.Errorf("%q, want %q", f.lines, want)
	}
}
