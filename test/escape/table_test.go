// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"testing"
)

func TestTableTellsKindsOfCellsApart(t *testing.T) {
	table := Table{
		Title: "some", Backend: Backend{Name: "none"},
		Modes: []Mode{{Name: "m"}}, Ends: []End{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "long-name"}},
		cells: make(map[[2]string]Result),
	}
	for end, r := range map[string]Result{
		"a": {Members: 3}, "b": {Members: 3, Swept: true}, "c": {Members: 3, Left: 2, Exempt: true}, "d": {Members: 3, Left: 1},
	} {
		table.put(Mode{Name: "m"}, End{Name: end}, r)
	}
	Contains(t, table.String(), "some, backend none\n", "\nm                       .      s    (2)      1         -\n",
		"4 cells, 2 with nothing left, 1 exempt; 12 members registered, 1 left, and 2 in the exempt cells; 0 bystanders dead; 1 needed a sweep")
}

// Only its backend can exempt a cell.
func TestExemptions(t *testing.T) {
	group := func(*Site, string) string { return "" }
	own := Backend{Groups: group, Exempt: func(m Mode, e End) string {
		if e.KillsGroup {
			return "it went with its client"
		}
		return ""
	}}
	for _, c := range []struct {
		backend Backend
		mode    Mode
		end     End
		want    bool
	}{
		{Backend{Groups: group}, Mode{MovesAway: true}, End{KillsGuard: true}, false},
		{own, Mode{}, End{KillsGroup: true}, true},
		{own, Mode{}, End{}, false},
	} {
		if why := c.backend.exempt(c.mode, c.end); (why != "") != c.want {
			t.Errorf("%+v, %+v: %q", c.mode, c.end, why)
		}
	}
}
