// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func sortable() []Server {
	large, small := uint64(9), uint64(3)
	return []Server{
		{Identity: Identity{ID: "1", Name: "b", Client: Process{2, "x"}}, Age: 3, Figures: Figures{CPU: 1, Memory: &small, Processes: 2}},
		{Identity: Identity{ID: "2", Name: "A", Client: Process{1, "x"}}, Age: 2, Figures: Figures{CPU: 3, Memory: &large, Processes: 1}},
		{Identity: Identity{ID: "3", Name: "c", Client: Process{3, "a"}}, Age: 1, Figures: Figures{CPU: 2, Processes: 3}},
	}
}

func TestOrder(t *testing.T) {
	for text, want := range map[string]string{
		"name": "213", "age": "321", "cpu": "132", "memory": "312", "procs": "213", "client": "321",
		"-name": "312", "-age": "123", "-cpu": "231", "-memory": "213", "+memory": "312",
	} {
		order, err := ParseOrder(text)
		if err != nil {
			t.Fatal(err)
		}
		servers := sortable()
		order.Sort(servers)
		ids := ""
		for _, v := range servers {
			ids += v.ID
		}
		if ids != want {
			t.Errorf("%s: %s, want %s", text, ids, want)
		}
	}
	for _, text := range []string{"", "-", "--name", "state", "Name"} {
		if _, err := ParseOrder(text); err == nil || !strings.Contains(err.Error(), "none of name, age") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, column := range SortColumns() {
		if Comparison(column) == nil {
			t.Errorf("nothing compares by %s", column)
		}
	}
	servers := sortable()
	slices.Reverse(servers)
	OldestFirst().Sort(servers)
	if servers[0].ID != "1" || servers[2].ID != "3" {
		t.Errorf("the oldest is not the first: %+v", servers)
	}
}

// By age, a server that has ended is where its start is, however long it ran. Without a start it has that of its end.
func TestAgeOrderOfServersThatHaveEnded(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) *time.Time {
		then := now.Add(-d)
		return &then
	}
	servers := []Server{
		{Identity: Identity{ID: "swept"}, Ended: ago(15 * time.Minute)},
		{Identity: Identity{ID: "long"}, Started: ago(time.Hour), Ended: ago(time.Minute), Age: 3540},
		{Identity: Identity{ID: "young"}, Started: ago(time.Minute), Age: 60},
		{Identity: Identity{ID: "short"}, Started: ago(2 * time.Hour), Ended: ago(119 * time.Minute), Age: 60},
		{Identity: Identity{ID: "old"}, Started: ago(30 * time.Minute), Age: 1800},
	}
	OldestFirst().Sort(servers)
	var got []string
	for _, s := range servers {
		got = append(got, s.ID)
	}
	if want := []string{"short", "long", "old", "swept", "young"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
