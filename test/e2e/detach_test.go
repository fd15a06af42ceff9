// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// Who is named is left running, with what is below it, however the server is ended, and nobody else; unless nobody is
// left to let it out.
func TestDetachCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backend escape.Backend
		glob    string
		end     string
		stays   bool
	}{
		{cgroup, "shared-daemon", "stdin", true},
		{cgroup, "nothing; shared-*", "TERM", true},
		{cgroup, "*/shared-daemon -c *", "launcher", true},
		{cgroup, "shared-daemon", "supervisor", false},
		{cgroup, "other-daemon", "stdin", false},
		{delegated, "shared-daemon", "stdin", true},
		{tree, "shared-daemon", "stdin", false},
	} {
		t.Run(c.backend.Name+"/"+c.glob+"/"+c.end, func(t *testing.T) {
			t.Parallel()
			detachCommand(t, c.backend, c.glob, c.end, c.stays)
		})
	}
}

func detachCommand(t *testing.T, backend escape.Backend, glob, end string, stays bool) {
	dir := t.TempDir()
	daemon, report := filepath.Join(dir, "shared-daemon"), filepath.Join(dir, "report")
	if err := os.Symlink("/bin/sh", daemon); err != nil {
		t.Fatal(err)
	}
	site := backend.Site(t)
	named, other := escape.NewMembers(t), escape.NewMembers(t)
	server := fmt.Sprintf(`setsid %[1]s -c '%[2]s --register %[3]s ignore-both; :' </dev/null & setsid %[2]s --register %[4]s ignore-both </dev/null & read -r line`,
		daemon, binaries.Zoo, named.Address, other.Address)
	group := site.Unique("client")
	client := site.NewClient(group, []string{"--group"},
		[]string{binaries.mcpscope, "run", "--backend", backend.Name, "--name", "server", "--term-grace", "300ms", "--report", report, "--detach-command", glob, "--", "sh", "-c", server})
	for _, m := range []*escape.Members{named, other} {
		if err := m.UntilReady(escape.Patience); err != nil {
			t.Fatalf("%v; stderr: %s", err, escape.Contents(client.Stderr))
		}
	}
	main, id := named.Main()
	supervisor, err := escape.ParentProcess(main) // of the tree's, which is looked at no more
	if backend.Groups != nil {
		_, supervisor, err = escape.FindServer(backend.Groups(site, group), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(supervisor.Close)
	switch end {
	case "stdin":
		client.Tell("close")
	case "TERM":
		client.Server.Signal(unix.SIGTERM)
	case "launcher":
		client.Server.Signal(unix.SIGKILL)
	case "supervisor":
		supervisor.Signal(unix.SIGKILL)
	}
	if n := other.UntilDead(escape.Patience); n > 0 {
		t.Errorf("%d live that nobody has named", n)
	}
	client.Status(escape.Patience)
	if !stays {
		if n := named.UntilDead(escape.Patience); n > 0 {
			t.Errorf("%d live", n)
		}
		return
	}
	var told struct{ Daemons, Detached []struct{ Name string } }
	if !supervisor.Ended(escape.Patience) {
		t.Fatal("the supervisor is still there")
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	if len(told.Detached) != 2 || end == "stdin" && len(told.Daemons) < 2 { // at a signal they still have their parent
		t.Errorf("the report has %+v", told)
	}
	alive := named.PIDs()
	if len(alive) != 1 {
		t.Fatalf("%d of it live, want 1", len(alive))
	}
	where, err := bed.ProcessPath(alive[0])
	if err != nil || strings.Contains(where, "/mcp-") {
		t.Errorf("it is in %s, %v", where, err)
	}
	for _, args := range [][]string{{"sweep"}, {"sweep", "--escaped", "--yes"}} {
		if out, err := (&world{&escape.World{Site: site}}).mcpscope(args...).CombinedOutput(); err != nil || len(named.Running()) != 1 {
			t.Errorf("%q ends it: %s, %v", args, out, err)
		}
	}
}

// Who has an engine do something with a container that is there already is told what that means. The engine itself is not
// asked for anything, so any program will do.
func TestOtherContainersAreNoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	docker := filepath.Join(t.TempDir(), "docker")
	if err := os.Symlink("/bin/true", docker); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		word  string
		noted bool
	}{{"exec", true}, {"ps", false}} {
		o := w.run(w.mcpscope("run", "--backend", "cgroup", "-v", "--", docker, c.word, "it"))
		if noted := strings.Contains(o.stderr, "docker exec: what it starts"); noted != c.noted || o.status != 0 {
			t.Errorf("%s: %v: %s", c.word, o.status, o.stderr)
		}
	}
	w.clean()
}
