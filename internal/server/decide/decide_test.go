// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strings"
	"testing"
)

// change is what is so from a time on, in milliseconds.
type change struct {
	at     int64
	change func(*Facts)
}

// play makes the steps of a minute in virtual time, and returns what is done, and when.
func play(times Times, changes []change) string {
	names := [...]string{Thaw: "thaw", Prepare: "prepare", Ask: "ask", EndContainers: "containers", Kill: "kill", Remove: "remove"}
	s := State{}
	f := Facts{}
	var done []string
	for ms := int64(1); ms < 60e3 && s.Phase != Gone; ms++ {
		f.Now = ms * 1e6
		for _, c := range changes {
			if c.at == ms {
				c.change(&f)
			}
		}
		for a := Step(&s, &f, &times); a != Wait && s.Phase != Gone; a = Step(&s, &f, &times) {
			done = append(done, fmt.Sprint(ms, " ", names[a]))
			if a == EndContainers || a == Prepare {
				break
			}
		}
		if s.Phase == Gone {
			done = append(done, fmt.Sprint(ms, " remove"))
		}
	}
	if len(done) > 4 { // a kill is repeated
		done = append(done[:3], "…", done[len(done)-1])
	}
	return strings.Join(done, ", ")
}

// Each row of the table, with the times of a stop.
func TestStep(t *testing.T) {
	usual := Times{EOFGrace: 1200e6, TermGrace: 1000e6}
	hangUp := func(f *Facts) { f.HungUpAt = f.Now }
	unread := func(f *Facts) { f.HungUpAt, f.Unread = f.Now, true }
	read := func(f *Facts) { f.Unread = false }
	mainEnds := func(f *Facts) { f.MainEnded = true }
	empty := func(f *Facts) { f.MainEnded, f.Empty = true, true }
	signal := func(f *Facts) { f.Signalled = true }
	repeat := func(f *Facts) { f.Repeated = true }
	launcher := func(f *Facts) { f.LauncherDead = true }
	client := func(f *Facts) { f.Abandoned = true }
	request := func(f *Facts) { f.Requested = true }
	containers := func(f *Facts) { f.Containers = true }
	noContainers := func(f *Facts) { f.Containers = false }
	keeps := func(f *Facts) { f.Keeps = true }
	kept := func(f *Facts) { f.Keeps = false }
	slowHangUp := func(f *Facts) { f.HungUpAt, f.SlowUntil = f.Now, f.Now+5000e6 }
	for _, c := range []struct {
		name, want string
		times      Times
		changes    []change
	}{
		{"ends by itself", "10 remove", usual, []change{{10, empty}}},
		{"ends in the EOF grace", "10 thaw, 110 remove", usual, []change{{10, hangUp}, {110, empty}}},
		{"EOF", "10 thaw, 1210 ask, 1300 remove", usual, []change{{10, hangUp}, {1300, empty}}},
		{"EOF, ignores SIGTERM", "10 thaw, 1210 ask, 2210 kill, 2211 remove", usual, []change{{10, hangUp}, {2211, empty}}},
		{"EOF, is stuck", "10 thaw, 1210 ask, 2210 kill, …, 59995 kill", usual, []change{{10, hangUp}}},
		{"EOF, endless grace", "10 thaw, 50000 remove", Times{EOFGrace: -1, TermGrace: 1000e6}, []change{{10, hangUp}, {50000, empty}}},
		{"EOF, endless term grace", "10 thaw, 1210 ask, 50000 remove", Times{EOFGrace: 1200e6, TermGrace: -1}, []change{{10, hangUp}, {50000, empty}}},
		{"EOF, no grace", "10 thaw, 10 ask, 10 kill, 11 remove", Times{}, []change{{10, hangUp}, {11, empty}}},
		{"EOF, unread for 3 s", "10 thaw, 4199 ask, 4200 remove", usual, []change{{10, unread}, {3000, read}, {4200, empty}}},
		{"EOF, unread for ever", "10 thaw, 11209 ask, 11300 remove", usual, []change{{10, unread}, {11300, empty}}},
		{"EOF seen late", "3000 thaw, 3000 ask, 3001 remove", usual, []change{{3000, func(f *Facts) { f.HungUpAt = 10e6 }}, {3001, empty}}},
		{"signal, ends", "10 thaw, 15 remove", usual, []change{{10, signal}, {15, empty}}},
		{"signal", "10 thaw, 35 ask, 1035 kill, 1036 remove", usual, []change{{10, signal}, {1036, empty}}},
		{"signal in the EOF grace", "10 thaw, 500 thaw, 525 ask, 600 remove", usual, []change{{10, hangUp}, {500, signal}, {600, empty}}},
		{"signal twice", "10 thaw, 35 ask, 100 kill, 101 remove", usual, []change{{10, signal}, {100, repeat}, {101, empty}}},
		{"main ends", "10 thaw, 13 ask, 20 remove", usual, []change{{10, mainEnds}, {20, empty}}},
		{"main ends, the others do not", "10 thaw, 13 ask, 1013 kill, 1014 remove", usual, []change{{10, mainEnds}, {1014, empty}}},
		{"launcher dies", "10 kill, 11 remove", usual, []change{{10, launcher}, {11, empty}}},
		{"launcher dies in a stop", "10 thaw, 1210 ask, 1300 kill, 1301 remove", usual, []change{{10, hangUp}, {1300, launcher}, {1301, empty}}},
		{"client dies", "10 ask, 11 remove", usual, []change{{10, client}, {11, empty}}},
		{"client dies, and its pipe is closed", "10 thaw, 1210 ask, 1211 remove", usual,
			[]change{{10, hangUp}, {10, client}, {1211, empty}}},
		{"client dies in the EOF grace", "10 thaw, 1210 ask, 1211 remove", usual, []change{{10, hangUp}, {500, client}, {1211, empty}}},
		{"client dies in an endless EOF grace", "10 thaw, 500 ask, 501 remove", Times{EOFGrace: -1, TermGrace: 1000e6},
			[]change{{10, hangUp}, {500, client}, {501, empty}}},
		{"containers first", "10 ask, 1010 containers, 1015 kill, 1016 remove", usual,
			[]change{{1, containers}, {10, request}, {1012, noContainers}, {1016, empty}}},
		{"kept first, request", "10 prepare, 11 ask, 1011 kill, 1012 remove", usual,
			[]change{{1, keeps}, {10, request}, {11, kept}, {1012, empty}}},
		{"kept first, EOF", "10 thaw, 1210 prepare, 1211 ask, 1300 remove", usual,
			[]change{{1, keeps}, {10, hangUp}, {1211, kept}, {1300, empty}}},
		{"kept first, main ends", "10 thaw, 13 prepare, 15 remove", usual,
			[]change{{1, keeps}, {10, mainEnds}, {15, empty}}},
		{"kept first, launcher dies", "10 kill, 11 remove", usual, []change{{1, keeps}, {10, launcher}, {11, empty}}},
		{"EOF, reads its memory back", "10 thaw, 6210 ask, 7210 kill, 7211 remove", usual, []change{{10, slowHangUp}, {7211, empty}}},
		{"request", "10 ask, 1010 kill, 1011 remove", usual, []change{{10, request}, {1011, empty}}},
		{"request in the EOF grace", "10 thaw, 500 ask, 501 remove", usual, []change{{10, hangUp}, {500, request}, {501, empty}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := play(c.times, c.changes); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Members that nobody keeps in time are asked as all others, and nobody waits for long to know who uses them.
func TestPrepareIsBounded(t *testing.T) {
	const begin = int64(1e9)
	for _, facts := range []Facts{{Requested: true, Keeps: true}, {Requested: true, SeeksUse: true}} {
		most := int64(1e9)
		if facts.Keeps {
			most = 2e9
		}
		s := State{}
		times := Times{TermGrace: 1e9}
		for _, c := range []struct {
			after int64 // the begin of the stop
			want  Action
		}{{0, Prepare}, {most - 1, Prepare}, {most, Ask}} {
			facts.Now = begin + c.after
			if got := Step(&s, &facts, &times); got != c.want {
				t.Errorf("%+v: %d, want %d", facts, got, c.want)
			}
		}
	}
}

// A kill that lasts has either met a process in uninterruptible sleep, or the machine is busy: then it goes on.
func TestIsStuck(t *testing.T) {
	const second = int64(1e9)
	for _, c := range []struct {
		after  int64 // the begin of the kill
		sleeps bool
		want   bool
	}{
		{3 * second, true, false}, {4 * second, true, true}, {5 * second, false, false},
		{59 * second, false, false}, {60 * second, false, true},
	} {
		s := State{}
		f := Facts{Now: second, LauncherDead: true}
		times := Times{}
		if Step(&s, &f, &times) != Kill || s.IsStuck() {
			t.Fatalf("%+v: at the begin: %+v", c, s)
		}
		f.Now += c.after
		f.Sleeps = c.sleeps
		if Step(&s, &f, &times) != Kill || s.IsStuck() != c.want {
			t.Errorf("%+v: stuck %v", c, s.IsStuck())
		}
	}
}
