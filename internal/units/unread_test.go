// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// Until the daemon-reload after an installation the drop-in is unread. Each other unread file is an error.
func TestUnreadFiles(t *testing.T) {
	const (
		fragment = "g.service"
		override = "g.service.d/override.conf"
		own      = "g.service.d/zz-mcpscope.conf"
	)
	for name, c := range map[string]struct {
		written []string // in this order
		read    []string // drop-ins
		removed string
		want    error
	}{
		"the drop-in":                  {[]string{fragment, own}, nil, "", nil},
		"the drop-in beside another":   {[]string{fragment, override, own}, []string{override}, "", nil},
		"the unit file":                {[]string{own, fragment}, nil, "", ErrOutdated},
		"another drop-in":              {[]string{fragment, own, override}, []string{override}, "", ErrOutdated},
		"a new drop-in":                {[]string{fragment, own, override}, nil, "", ErrOutdated},
		"a change of the drop-in":      {[]string{fragment, own}, []string{own}, "", ErrOutdated},
		"a removed drop-in":            {[]string{fragment, override, own}, []string{override}, override, ErrOutdated},
		"the removal of mcpscope's":    {[]string{fragment, own}, []string{own}, own, ErrOutdated},
		"a unit file without mcpscope": {[]string{fragment}, nil, "", ErrOutdated},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := service{Service: systemd.Service{Name: "g.service", Outdated: true}}
			s.Fragment = filepath.Join(dir, fragment)
			if err := os.Mkdir(filepath.Join(dir, "g.service.d"), 0o700); err != nil {
				t.Fatal(err)
			}
			for i, file := range c.written {
				writeLater(t, filepath.Join(dir, file), c.written[:i], dir)
			}
			for _, file := range c.read {
				s.DropIns = append(s.DropIns, filepath.Join(dir, file))
			}
			if c.removed != "" {
				if err := os.Remove(filepath.Join(dir, c.removed)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.checkRead(dir); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// A link that has another target now is a change of the file.
func TestChangeTimeOfALink(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old.service")
	later := filepath.Join(dir, "later.conf")
	link := filepath.Join(dir, "g.service")
	writeLater(t, old, nil, dir)
	writeLater(t, later, []string{"old.service"}, dir)
	after, err := changeTime(later)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if err := os.Symlink(old, link); err != nil {
			t.Fatal(err)
		}
		got, err := changeTime(link)
		if err != nil {
			t.Fatal(err)
		}
		if got.After(after) {
			return
		}
		if err := os.Remove(link); err != nil { // the clock of files has not gone on
			t.Fatal(err)
		}
	}
}

// writeLater writes a file until its time of change is after that of earlier ones, which may be 10 ms coarse.
func writeLater(t *testing.T, file string, earlier []string, dir string) {
	t.Helper()
	for {
		if err := os.WriteFile(file, []byte("[Service]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		changed, err := changeTime(file)
		if err != nil {
			t.Fatal(err)
		}
		isLater := true
		for _, name := range earlier {
			before, err := changeTime(filepath.Join(dir, name))
			isLater = isLater && err == nil && changed.After(before)
		}
		if isLater {
			return
		}
	}
}

// An installation without flags keeps those of a drop-in that the manager has yet to read.
func TestFlagsOfAnUnreadDropIn(t *testing.T) {
	dir := t.TempDir()
	s := service{Service: systemd.Service{Name: "g.service"}}
	if _, err := (File{Name: dropInOf(s.Name), Text: "[Service]\nExecStart=/opt/mcpscope gateway \"--match=a\" -- /bin/g\n"}).Install(dir); err != nil {
		t.Fatal(err)
	}
	if flags := s.keptFlags(); len(flags) != 0 {
		t.Errorf("%q without the drop-in", flags)
	}
	if flags := s.withDropIn(dir).keptFlags(); len(flags) != 1 || flags[0] != "--match=a" {
		t.Errorf("%q", flags)
	}
}
