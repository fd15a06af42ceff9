// SPDX-License-Identifier: Apache-2.0

package units

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// A removal must be finished if the manager has the drop-in still.
func TestRemovalIsPending(t *testing.T) {
	below := [][]string{{"/opt/mcpscope", "gateway", "--", "/bin/g"}}
	bare := [][]string{{"/bin/g"}}
	dropIns := []string{"/etc/systemd/system/g.service.d/zz-mcpscope.conf"}
	for name, c := range map[string]struct {
		service systemd.Service
		want    bool
	}{
		"removed":           {systemd.Service{Commands: bare}, false},
		"to be read":        {systemd.Service{Commands: bare, Outdated: true}, true},
		"in force":          {systemd.Service{Commands: below, DropIns: dropIns}, true},
		"of the unit's own": {systemd.Service{Commands: below}, false},
	} {
		if got := (DropInRemoval{service: service{Service: c.service}}).IsPending(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The drop-in of the unit is removed, that of a former version, and those for other names of the unit.
func TestDropInsToRemove(t *testing.T) {
	const (
		own    = "g.service.d/zz-mcpscope.conf"
		former = "g.service.d/mcpscope.conf"
		alias  = "alias.service.d/zz-mcpscope.conf"
		later  = "g.service.d/zzz.conf"
	)
	for name, c := range map[string]struct{ present, want []string }{
		"none":      {nil, []string{own}},
		"one":       {[]string{own, later}, []string{own}},
		"both":      {[]string{own, former}, []string{own, former}},
		"former":    {[]string{former}, []string{former}},
		"by alias":  {[]string{alias}, []string{alias}},
		"all of it": {[]string{own, former, alias}, []string{own, former, alias}},
	} {
		dir := t.TempDir()
		var s systemd.Service
		for _, present := range c.present {
			if _, err := (File{Name: present, Text: "[Service]\n"}).Install(dir); err != nil {
				t.Fatal(err)
			}
			s.DropIns = append(s.DropIns, filepath.Join(dir, present))
		}
		var got []string
		for _, file := range dropInsToRemove("g.service", dir, s) {
			got = append(got, file.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A removal starts no service, and needs no unit file of it.
func TestStepsOfARemoval(t *testing.T) {
	reload := ReloadStep().String()
	restart := systemctlStep("try-restart", "g").String()
	for name, c := range map[string]struct {
		hasUnit bool
		kind    string
		want    string
	}{
		"a service":           {true, "simple", reload + " && " + restart},
		"a job":               {true, "oneshot", reload},
		"without a unit file": {false, "", reload},
	} {
		r := DropInRemoval{Name: ServiceName{Entered: "g"}, HasUnit: c.hasUnit}
		r.service.Type = c.kind
		if got := ShellLine(r.Steps()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
