// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/test/groups"
)

const (
	attacker = 65533 // a user with very many directories
	stranger = 65534 // another one
)

// Another user can make any number of directories, in any shape. Root reads a bounded number of them, says so, and
// finds the servers of all others.
func TestVisitBesideManyDirectoriesOfAnotherUser(t *testing.T) {
	dir := groups.Directory(t)
	const ofRoot = foreignMost + 1
	makeGroups(t, dir, ofRoot, 0)
	makeGroups(t, delegated(t, dir, "zz", stranger), 1, 0)
	makeGroups(t, delegated(t, dir, "0", stranger), 1, 0)
	for name, c := range map[string]struct{ parents, groupsEach, inGroup, want int }{
		"in one directory": {parents: 1, groupsEach: foreignMost + 1, want: foreignMost - 1},
		"nested":           {parents: foreignMost/2 + 1, groupsEach: 1, want: foreignMost / 2},
		"in groups":        {parents: 1, groupsEach: 2, inGroup: foreignMost / 2, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := delegated(t, dir, strings.ReplaceAll(name, " ", "-"), attacker)
			var inner []*cgroup.Group
			for i := range c.parents {
				inner = append(inner, delegated(t, theirs, fmt.Sprint("d", i), stranger+1+i)) // as by a user namespace
			}
			for _, parent := range inner {
				makeGroups(t, parent, c.groupsEach, c.inGroup)
			}
			found, err := visited(dir, Everyone())
			if n := found[filepath.Base(theirs.Path())]; n == 0 || n > c.want {
				t.Errorf("of a user with too many directories %d groups are visited, want %d at most", n, c.want)
			}
			if found["zz"] != 1 || found["0"] != 1 || found["."] != ofRoot {
				t.Errorf("%d and %d of the 1 of another user, and %d of root's %d groups are visited",
					found["zz"], found["0"], found["."], ofRoot)
			}
			want := &UnreadError{UID: attacker, Dir: theirs.Path()}
			if err == nil || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("the error is %v, want %v", err, want)
			}
			if _, err := visited(dir, CallingUser()); err != nil {
				t.Errorf("another user makes root's own list fail: %v", err)
			}
		})
	}
}

// delegated makes a directory and gives it to a user.
func delegated(t *testing.T, parent *cgroup.Group, name string, uid int) *cgroup.Group {
	t.Helper()
	made, err := parent.Mkdir(name, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() }) // a directory
	if err := os.Chown(made.Path(), uid, uid); err != nil {
		t.Fatal(err)
	}
	return made
}

// makeGroups makes groups with so many directories in each.
func makeGroups(t *testing.T, parent *cgroup.Group, number, inEach int) {
	t.Helper()
	for range number {
		dir := filepath.Join(parent.Path(), names.DirectoryName("server", names.NewID()))
		if err := os.Mkdir(dir, GroupMode); err != nil {
			t.Fatal(err)
		}
		for i := range inEach {
			if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), GroupMode); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// visited counts the groups by the directory below dir that they are in or below.
func visited(dir *cgroup.Group, users Users) (map[string]int, error) {
	found := map[string]int{}
	visit := Visit{Users: users}
	visit.Groups = func(_ string, parent *cgroup.Group, dirs []string) error {
		below, err := filepath.Rel(dir.Path(), parent.Path())
		top, _, _ := strings.Cut(below, "/")
		found[top] += len(dirs)
		return err
	}
	return found, visit.All()
}

// Whoever needs no server of another user still learns that an own one could not be read.
func TestIgnoreUnread(t *testing.T) {
	unread := &UnreadError{UID: attacker}
	for name, c := range map[string]struct{ err, want error }{
		"none":              {},
		"another one":       {unix.EMFILE, unix.EMFILE},
		"unread":            {unread, nil},
		"unread twice":      {errors.Join(unread, errors.Join(unread)), nil},
		"beside another":    {errors.Join(unread, unix.EMFILE), unix.EMFILE},
		"below another one": {errors.Join(unix.EMFILE, errors.Join(nil, unread)), unix.EMFILE},
	} {
		got := IgnoreUnread(c.err)
		if !errors.Is(got, c.want) || errors.As(got, new(*UnreadError)) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
