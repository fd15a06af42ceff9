// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/operate"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// list runs a command that prints servers as JSON; those that other tests have as trees,
// which no world hides, are left out.
func (w *world) list(clients []*server, args ...string) []operate.Shown {
	w.T.Helper()
	o := w.run(w.mcpscope(append(args, "--json")...))
	var found struct{ Servers []operate.Shown }
	if err := json.Unmarshal([]byte(o.stdout), &found); err != nil || o.status != 0 || o.stderr != "" {
		w.T.Fatalf("%q: %v, %v; stderr: %s", args, o.status, err, o.stderr)
	}
	var ours []operate.Shown
	for _, l := range found.Servers {
		for _, s := range clients {
			if l.Launcher == s.Server.PID || l.Supervisor == s.supervisor.PID {
				ours = append(ours, l)
			}
		}
	}
	return ours
}

// views runs a test on the backends whose servers are found in different ways.
func views(t *testing.T, test func(t *testing.T, w *world, start func(options []string, command ...string) *server)) {
	t.Parallel()
	for _, backend := range []string{"cgroup", "tree"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test(t, w, func(options []string, command ...string) *server {
				return startServer(w, []string{"--group"}, append([]string{"--backend", backend}, options...), command...)
			})
		})
	}
}

func TestStopOfAnOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orphan := startOrphan(t, w)
	o := w.run(w.mcpscope("ls", "--orphans", "-q"))
	id := strings.TrimSpace(o.stdout)
	if o = w.run(w.mcpscope("stop", id)); o.status != 0 || o.stdout != fmt.Sprintf("stopped server (%s)\n", id) {
		t.Errorf("%v, %q; stderr: %s", o.status, o.stdout, o.stderr)
	}
	if left := orphan.members.Running(); len(left) > 0 {
		t.Errorf("stop returned before they were dead: %q", left)
	}
	w.clean()
}

// Groups that come and go faster than any server, so that each moment between two of them is met.
func TestLsBesideVanishingGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stays := startServer(w, []string{"--group"}, named("stays"), binaries.Zoo, "plain")
	over := make(chan struct{})
	var churn sync.WaitGroup
	defer churn.Wait()
	defer close(over)
	for i := range 4 {
		churn.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				id := strings.ReplaceAll(fmt.Sprintf("%d%07d", i, n%100), "1", "z") // as ids are
				top := filepath.Join(rootsSlice(w.Site), "mcp-churn-"+id)
				payload, supervisor := filepath.Join(top, "payload"), filepath.Join(top, "supervisor")
				if err := errors.Join(os.Mkdir(top, 0o700), os.Mkdir(supervisor, 0o700), os.Mkdir(payload, 0o700),
					unix.Setxattr(payload, "user.mcpscope.armed", []byte("1"), 0)); err != nil {
					t.Error(err)
					return
				}
				for _, dir := range []string{payload, supervisor, top} {
					if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT { // a sweep, as at the start of the server above, takes it for an orphan
						t.Error(dir, err)
						return
					}
				}
			}
		})
	}
	lists := 10
	if escape.Full() {
		lists = 100
	}
	for range lists {
		if got := w.list([]*server{stays}, "ls"); len(got) != 1 || got[0].State != "running" {
			t.Errorf("%+v", got)
		}
	}
}

// A server can keep its own user from reading its group; the others are listed, and what could not be is named.
func TestLsBesideAGroupThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir, program := w.delegate("theirs"), readable(t, binaries.mcpscope)
	ids := []string{"abcdefgh", "qrstuvwx", "stuvwxyz"}
	for _, id := range ids {
		w.forge(dir, "mcp-forged-"+id)
	}
	for _, hidden := range ids { // whichever comes first in the directory
		unreadable := filepath.Join(dir, "mcp-forged-"+hidden)
		if err := os.Chmod(unreadable, 0); err != nil {
			t.Fatal(err)
		}
		o, err := escape.Finish(dir, w.Command(w.attackers(program, "ls", "-q")...))
		if err != nil || o.Status.ExitStatus() != 1 || !strings.Contains(o.Stderr, hidden) {
			t.Errorf("%s hidden: %v, %v; stderr: %s", hidden, o.Status, err, o.Stderr)
		}
		for _, id := range ids {
			if strings.Contains(o.Stdout, id) == (id == hidden) {
				t.Errorf("%s hidden: listed are %q", hidden, o.Stdout)
			}
		}
		if err := os.Chmod(unreadable, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLsFitsTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	startServer(w, []string{"--group"}, named(strings.Repeat("long", 20)), binaries.Zoo, "plain")
	cmd := w.Command("sh", "-c", "stty cols 60; exec \"$1\" ls", "sh", binaries.mcpscope)
	group := w.Unique("terminal")
	s := transparent.StartTerminal(t, cmd, func() error { return escape.StartIn(group, cmd) })
	s.Expect("longlong", "\n")
	for _, line := range strings.Split(s.All(), "\r\n") {
		if wide(line) > 60 {
			t.Errorf("%d cells: %q", wide(line), line)
		}
	}
	if o := w.run(w.mcpscope("ls", "--json")); !strings.Contains(o.stdout, strings.Repeat("long", 20)) {
		t.Errorf("clipped in JSON: %s", o.stdout)
	}
}

// A member may stop the supervisor of a tree, which then tells nobody what it has.
func TestStoppedTreeIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, []string{"--backend", "tree"}, binaries.Zoo, "plain")
	s.supervisor.Signal(unix.SIGSTOP)
	for _, args := range [][]string{{"ls"}, {"inspect", "server"}} {
		found := w.list([]*server{s}, args...)
		if len(found) != 1 || found[0].Name != "server" || found[0].Backend != "tree" || found[0].Processes == 0 {
			t.Errorf("%q: %+v", args, found)
		}
	}
	s.supervisor.Signal(unix.SIGCONT)
	s.Tell("close")
	s.dead(escape.Patience)
}
