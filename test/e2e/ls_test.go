// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Groups that come and go faster than any server, so that each moment between two of them is met.
func TestLsBesideVanishingGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stays := startServer(w, []string{"--group"}, named("stays"), binaries.Zoo, "plain")
	_, want := stays.members.Main()
	over := make(chan struct{})
	var churn sync.WaitGroup
	churn.Go(func() {
		for n := 0; !closed(over); n++ {
			top := filepath.Join(rootsSlice(w.Site), strings.ReplaceAll(fmt.Sprintf("mcp-churn-%08d", n%100), "1", "z")) // as ids are
			payload, supervisor := filepath.Join(top, "payload"), filepath.Join(top, "supervisor")
			err := errors.Join(os.Mkdir(top, 0o700), os.Mkdir(supervisor, 0o700), os.Mkdir(payload, 0o700),
				unix.Setxattr(payload, "user.mcpscope.armed", []byte("1"), 0))
			for _, dir := range []string{payload, supervisor, top} {
				// a sweep, as at the start of the server above, takes it for an orphan
				if gone := unix.Rmdir(dir); gone != nil && gone != unix.ENOENT {
					err = errors.Join(err, gone)
				}
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 10 {
		o := w.run(w.mcpscope("ls", "--format", "{{.ID}} {{.State}}"))
		if o.status != 0 || o.stderr != "" || !strings.Contains(o.stdout, want+" running\n") {
			t.Errorf("%+v", o)
		}
	}
	close(over)
	churn.Wait()
}

// A server can keep its own user from reading its group; the others are listed, and what could not be is named.
func TestLsBesideAGroupThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir, program := w.delegate("theirs"), readable(t, binaries.mcpscope)
	ids := []string{"abcdefgh", "stuvwxyz"}
	for _, id := range ids {
		w.forge(dir, "mcp-forged-"+id)
	}
	for i, hidden := range ids { // whichever comes first in the directory
		unreadable := filepath.Join(dir, "mcp-forged-"+hidden)
		if err := os.Chmod(unreadable, 0); err != nil {
			t.Fatal(err)
		}
		o, err := escape.Finish(dir, w.Command(as(attacker, program, "ls", "-q")...))
		if err != nil || o.Status.ExitStatus() != 1 || !strings.Contains(o.Stderr, hidden) {
			t.Errorf("%s hidden: %v, %v; stderr: %s", hidden, o.Status, err, o.Stderr)
		}
		if strings.Contains(o.Stdout, hidden) || !strings.Contains(o.Stdout, ids[1-i]) {
			t.Errorf("%s hidden: listed are %q", hidden, o.Stdout)
		}
		if err := os.Chmod(unreadable, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
