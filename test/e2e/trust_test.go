// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// attacker is another user.
const attacker = 65533

// delegate gives a user a cgroup, as an administrator does.
func (w *world) delegate(name string) string {
	w.T.Helper()
	dir := w.Group(name)
	for _, file := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		if err := os.Chown(filepath.Join(dir, file), attacker, attacker); err != nil {
			w.T.Fatal(err)
		}
	}
	return dir
}

// attackers is a command line that runs as that user.
func (w *world) attackers(command ...string) []string {
	return append([]string{"setpriv", "--reuid", fmt.Sprint(attacker), "--regid", fmt.Sprint(attacker), "--clear-groups"}, command...)
}

// asAttacker runs a script as that user, in a cgroup.
func (w *world) asAttacker(group, script string, args ...string) {
	w.T.Helper()
	o, err := escape.Finish(group, w.Command(w.attackers(append([]string{"sh", "-euc", script, "sh"}, args...)...)...))
	if err != nil || o.Status != 0 {
		w.T.Fatalf("the attacker's %q: %v, %v: %s", script, o.Status, err, o.Stderr)
	}
}

// forge makes a group as the attacker; it is armed, and as old as one likes.
func (w *world) forge(dir, name string) string {
	w.T.Helper()
	w.asAttacker(dir, `umask 077; mkdir "$1" "$1/supervisor" "$1/payload"`, w.Seen(filepath.Join(dir, name)))
	payload := filepath.Join(dir, name, "payload")
	for attr, value := range map[string]string{"armed": "1", "name": "forged", "start": "2020-01-01T00:00:00Z"} {
		// what the attacker may do too, as the owner
		if err := unix.Setxattr(payload, "user.mcpscope."+attr, []byte(value), 0); err != nil {
			w.T.Fatal(err)
		}
	}
	return filepath.Join(dir, name)
}

// Ids are no secret: they are names of directories.
func TestForgedGroupWithTheIDOfAnothersServer(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"sweep --all-users", "stop --all-users --now forged"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := startServer(w, []string{"--group"}, nil, binaries.Zoo, "setsid")
			_, id := s.members.Main()
			w.forge(w.delegate("delegated"), "mcp-evil-"+id)
			w.run(w.mcpscope(strings.Fields(command)...)) // that it finds nothing is no failure
			if n := len(s.members.Running()); n != 2 {
				t.Errorf("%d members live, want 2", n)
			}
			if !s.Lives("still there?") {
				t.Error("the server of another user was hit")
			}
			s.Tell("close")
			s.dead(escape.Patience)
		})
	}
}

// forger starts e2e/forger with a child of root's, and returns what the test has of that.
func (w *world) forger(id string) (child *escape.Bystander) {
	w.T.Helper()
	childIn, in, err := os.Pipe()
	if err != nil {
		w.T.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		w.T.Fatal(err)
	}
	cmd := w.Command(binaries.forger, fmt.Sprint(attacker), id, binaries.Zoo, "plain")
	cmd.ExtraFiles = []*os.File{childIn, childOut}
	stderr, err := escape.OpenMemory("stderr")
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { stderr.Close() })
	cmd.Stderr = stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		w.T.Fatal(err)
	}
	w.Start(w.Unique("forger"), cmd)
	childIn.Close()
	childOut.Close()
	w.T.Cleanup(func() {
		in.Close()
		out.Close()
		_ = cmd.Process.Kill() // it may have been stopped
		_ = cmd.Wait()         // killed
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		w.T.Fatalf("the forger said %q: %v; stderr: %s", line, err, escape.Contents(stderr))
	}
	return escape.NewBystander("root's child of the forger", in, out)
}

// A user's process can have children of root's: sudo makes some.
func TestForgedTree(t *testing.T) {
	t.Parallel()
	for i, command := range []string{"sweep --all-users", "freeze --all-users forged", "stop --all-users forged", "stop --now --all-users forged", "ls --all-users", "metrics --all-users"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			child := w.forger(fmt.Sprintf("forge%03d", i))
			w.run(w.mcpscope(strings.Fields(command)...))
			if !child.Lives() {
				t.Error("a process of root's was hit")
			}
		})
	}
}

// Names that another user has taken hold nobody up for long.
func TestSquattedNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.Command(binaries.forger, fmt.Sprint(attacker), "-", "squat")
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Start(w.Unique("forger"), cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		t.Fatalf("the forger said %q: %v", line, err)
	}
	for _, command := range []string{"ls --all-users", "sweep --all-users", "metrics --all-users", "stop --all-users nobody"} {
		o, err := escape.FinishWithin(10*time.Second, w.Dir, w.mcpscope(strings.Fields(command)...)) // it was 12 s on an idle machine
		if err != nil {
			t.Errorf("%s: %v; stderr: %s", command, err, o.Stderr)
		}
	}
}

// Each of these groups is worth a wait, and all of them together no longer one.
func TestManyForgedGroupsDelayOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.delegate("delegated")
	zoo := readable(t, binaries.Zoo)
	var held []*escape.Bystander
	for i := range 40 {
		group := w.forge(dir, fmt.Sprintf("mcp-evil-abcdef%c%c", 'a'+i/8, 'a'+i%8))
		// locked by a process that is no supervisor, and names a launcher that nobody can see
		if err := unix.Setxattr(group+"/payload", "user.mcpscope.launcher", []byte("1 1 1"), 0); err != nil {
			t.Fatal(err)
		}
		line := []string{"setpriv", "--reuid", fmt.Sprint(attacker), "--regid", fmt.Sprint(attacker), "--clear-groups",
			"flock", w.Seen(group + "/payload"), zoo, "ignore-both"}
		held = append(held, w.Bystander("of the attacker", group+"/payload", w.Command(line...)))
	}
	for _, b := range held {
		if !b.Lives() {
			t.Fatal("a process of the attacker's is not up")
		}
	}
	// Other users' groups have ten seconds, all of them together, and each of these has five of doubt. A busy machine may need
	// more than one sweep; one after the other they would take twenty.
	var o escape.Outcome
	for range 3 {
		var err error
		if o, err = escape.FinishWithin(escape.Patience, w.Dir, w.mcpscope("sweep", "--all-users")); err != nil {
			t.Fatalf("%v; stderr: %s", err, o.Stderr)
		}
		held = slices.DeleteFunc(held, func(b *escape.Bystander) bool { return !b.Lives() })
		if len(held) == 0 {
			return
		}
	}
	t.Errorf("%d groups without a supervisor live on: their lock and their launcher were believed; sweep: %v, %s", len(held), o.Status, o.Stderr)
}

// Other programs' cgroups can have names like ours.
func TestSweepSparesForeignDirectories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := time.Now().Add(-time.Hour)
	foreign := []string{"mcp-web-database", "mcp-web-database/worker", "other/mcp-web-database", "mcp-odd-database", "mcp-odd-database/payload", "mcp-odd-database/payload/job"}
	for _, dir := range append([]string{"other"}, foreign...) {
		if err := os.Mkdir(filepath.Join(w.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ours := filepath.Join(w.Dir, "mcp-left-abcd2345")
	for _, dir := range []string{"", "supervisor", "payload"} { // by a launcher that was killed
		if err := os.Mkdir(filepath.Join(ours, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	populated := filepath.Join(w.Dir, "mcp-run-database")
	if err := errors.Join(os.Mkdir(populated, 0o755), os.Mkdir(populated+"/payload", 0o755)); err != nil {
		t.Fatal(err)
	}
	inside := w.Plain("in a foreign cgroup", populated+"/payload")
	for _, dir := range append([]string{ours, populated}, foreign...) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(w.Dir, dir)
		}
		if err := os.Chtimes(dir, long, long); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{{"sweep"}, {"sweep", "--all-users"}} {
		if o := w.run(w.mcpscope(command...)); o.status != 0 {
			t.Errorf("%v: %v; stderr: %s", command, o.status, o.stderr)
		}
	}
	for _, dir := range foreign {
		if _, err := os.Stat(filepath.Join(w.Dir, dir)); err != nil {
			t.Errorf("a cgroup of another program is gone: %v", err)
		}
	}
	if !inside.Lives() {
		t.Error("a process in a cgroup of another program was hit")
	}
	if _, err := os.Stat(ours); err == nil {
		t.Errorf("what a launcher has left is there still: %s", escape.Tree(ours))
	}
}

// usurped starts a server that kills both guards and then forges what is believed of its group.
func usurped(t *testing.T, w *world, mode string) *server {
	t.Helper()
	s := startServer(w, []string{"--group"}, nil, binaries.Zoo, mode)
	if err := escape.NobodyStandsBy(s.supervisor); err != nil {
		t.Fatal(err)
	}
	s.Tell("write now")
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) {
		t.Fatal("it did not say that it has done it")
	}
	if !s.Server.Ended(escape.Patience) || !s.supervisor.Ended(escape.Patience) {
		t.Fatal("a guard lives: this tests nothing")
	}
	if len(s.members.Running()) == 0 {
		t.Fatal("nobody lives: this tests nothing")
	}
	return s
}

// What the server can write may put its end off, and prevents none.
func TestUsurpedGroups(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"foreign-launcher", "foreign-sweeper", "false-supervisor", "renew-mark", "disarm"} {
		for means, end := range map[string]func(*world, *server){
			"sweep": func(w *world, _ *server) { w.sweep() },
			"stop": func(w *world, s *server) {
				_, id := s.members.Main()
				if o := w.run(w.mcpscope("stop", id)); o.status != 0 {
					w.T.Errorf("stop ended with %v; stderr: %s", o.status, o.stderr)
				}
			},
			"start": func(w *world, s *server) {
				next := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
				s.members.UntilDead(escape.Patience)
				next.Tell("close")
				next.Status(escape.Patience)
			},
		} {
			if mode == "disarm" && means == "stop" {
				continue // a group that is not armed is in no list
			}
			t.Run(mode+"/"+means, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				s := usurped(t, w, mode)
				end(w, s)
				if left := s.members.Running(); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				w.clean()
			})
		}
	}
}

// A child whose parent is in another pid namespace falls to the first process of that one.
func TestMemberInAForeignPidNamespace(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server){
		"stdin":      func(s *server) { s.Tell("close") },
		"launcher":   func(s *server) { s.Server.Signal(unix.SIGKILL) },
		"supervisor": func(s *server) { s.supervisor.Signal(unix.SIGKILL) },
		"client":     func(s *server) { s.Own.Signal(unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			bystander := w.Bystander("with a pid namespace of its own", w.Unique("bystander"), w.Command("unshare", "--pid", "--fork", "--kill-child", binaries.Zoo, "plain"))
			if !bystander.Lives() {
				t.Fatal("the bystander is not up")
			}
			s := startServer(w, []string{"--group"}, []string{"--eof-grace", "300ms", "--term-grace", "300ms"}, binaries.Zoo,
				"--sibling", w.Seen(w.Unique("sibling")), "--target", fmt.Sprint(bystander.Cmd.Process.Pid), "foreign-namespace")
			if n := len(s.members.Running()); n < 2 {
				t.Errorf("%d members live: this tests nothing", n)
			}
			end(s)
			s.dead(escape.Patience)
			if !bystander.Lives() {
				t.Error("the bystander was hit")
			}
		})
	}
}

// The same where nothing but the tag is left to find it by: its server has ended before there was a supervisor. On a busy machine
// there is one.
func TestForeignPidNamespaceAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bystander := w.Bystander("with a pid namespace of its own", w.Unique("bystander"), w.Command("unshare", "--pid", "--fork", "--kill-child", binaries.Zoo, "plain"))
	if !bystander.Lives() {
		t.Fatal("the bystander is not up")
	}
	for range 5 {
		sibling := w.Unique("sibling")
		o := w.run(w.mcpscope("run", "--", binaries.stray, fmt.Sprint(bystander.Cmd.Process.Pid), filepath.Join(w.Seen(sibling), "cgroup.procs")))
		if o.status != 0 || o.stderr != "" {
			t.Errorf("ended with %v; stderr: %s", o.status, o.stderr)
		}
		if pids, err := escape.GroupPids(sibling); len(pids) > 0 || err != nil {
			t.Errorf("left: %v (%v)", pids, err)
		}
	}
	if !bystander.Lives() {
		t.Error("the bystander was hit")
	}
}

// freezer1 is a cgroup of the freezer of version 1, as it has a hybrid host.
var freezer1 = bed.Feature{Name: "the freezer of cgroup v1", Missing: func() error {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err == nil && !strings.Contains(string(text), ":freezer:") {
		err = errors.New("not in /proc/self/cgroup")
	}
	return err
}}

// There a process does not act on SIGKILL before it is thawed.
func TestFrozenByVersion1(t *testing.T) {
	t.Parallel()
	bed.Require(t, freezer1)
	for _, seen := range []bool{true, false} {
		t.Run(fmt.Sprintf("seen=%v", seen), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			point := t.TempDir()
			// the mount is the world's, or that of a process in a mount namespace of its own
			holder := w.Root
			mount := []string{"mount", "-t", "cgroup", "-o", "freezer", "none", point}
			if seen {
				if o := w.run(w.Command(mount...)); o.status != 0 {
					t.Fatalf("mount: %s", o.stderr)
				}
			} else {
				script := `"$@" && exec ` + binaries.Zoo + ` plain`
				holder = w.Bystander("with the mount", w.Unique("mount"), w.Command(append([]string{"unshare", "--mount", "sh", "-c", script, "sh"}, mount...)...))
				if !holder.Lives() {
					t.Fatal("the mount can't be had")
				}
			}
			dir := fmt.Sprintf("/proc/%d/root%s/mcpscope-test.%d.%v", holder.Cmd.Process.Pid, point, os.Getpid(), seen)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := errors.Join(bed.Write(dir+"/freezer.state", "THAWED"), bed.WaitEmptyV1(dir, escape.Patience), os.Remove(dir)); err != nil {
					t.Error(err)
				}
			})
			s := startServer(w, []string{"--group"}, []string{"--eof-grace", "300ms", "--term-grace", "300ms"}, binaries.Zoo, "--target", dir, "freezer1")
			s.Tell("close")
			if seen {
				s.dead(escape.Patience)
				if status := s.Status(escape.Patience); status != "exit 0" {
					t.Errorf("ended with %q, want exit 0", status)
				}
				return
			}
			if status := s.Status(escape.Patience); status != "exit 125" {
				t.Errorf("ended with %q, want exit 125", status)
			}
			wantComplaint(t, escape.Contents(s.Stderr))
			if err := bed.Write(dir+"/freezer.state", "THAWED"); err != nil {
				t.Fatal(err)
			}
			s.dead(escape.Patience)
		})
	}
}

// A server of root's can make the directories of all servers useless.
func TestDirectoriesMadeUseless(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"mcp.slice", "mcp.slice/0"} {
		for file, value := range map[string]string{"cgroup.freeze": "1", "cgroup.max.depth": "0", "cgroup.max.descendants": "0"} {
			t.Run(dir+"/"+file, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				orphan := startOrphan(t, w)
				if err := bed.Write(filepath.Join(w.Dir, dir, file), value); err != nil {
					t.Fatal(err)
				}
				next := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
				if next.group == "" || escape.Contents(next.Stderr) != "" {
					t.Errorf("the next server is in no group; stderr: %s", escape.Contents(next.Stderr))
				}
				if n := orphan.members.UntilDead(escape.Patience); n > 0 {
					t.Errorf("%d members of the orphan left", n)
				}
				if err := escape.AwaitRemoval(orphan.group, escape.Patience); err != nil {
					t.Error(err)
				}
				next.Tell("close")
				next.dead(escape.Patience)
			})
		}
	}
}

// What can't be mended is said, and what is left is ended all the same.
func TestFallToTreeIsSaid(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(w *world) error{
		"too many groups": func(w *world) error { return bed.Write(filepath.Join(w.Dir, "cgroup.max.descendants"), "1") },
		"threaded":        func(w *world) error { return bed.Write(filepath.Join(rootsSlice(w.Site), "cgroup.type"), "threaded") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var orphan *server
			if what != "threaded" { // a group with members can't become so
				orphan = startOrphan(t, w)
			} else if err := os.MkdirAll(rootsSlice(w.Site), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := spoil(w); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = bed.Write(filepath.Join(w.Dir, "cgroup.max.descendants"), "max") })
			o := w.run(w.mcpscope("run", "--", binaries.Zoo, "plain"))
			if o.status != 0 || !strings.Contains(o.stderr, "weaker backend tree") || strings.Count(o.stderr, "\n") > 2 {
				t.Errorf("ended with %v; stderr: %s", o.status, o.stderr)
			}
			if orphan == nil {
				return
			}
			if n := orphan.members.UntilDead(escape.Patience); n > 0 {
				t.Errorf("%d members of the orphan left", n)
			}
		})
	}
}

// Whoever holds the supervisor before it could say that the server runs keeps nothing from its end. Not each of them
// comes in time.
func TestSupervisorHeldBeforeItsFirstWord(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"cgroup", "tree"} {
		for i := range 8 {
			t.Run(fmt.Sprint(backend, i), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				c := w.NewClient(w.Unique("client"), []string{"--group"}, []string{binaries.mcpscope, "run", "--backend", backend, "--term-grace", "100ms", "--", binaries.seizer})
				c.Expect("out up")
				c.Server.Signal(unix.SIGTERM)
				if c.Status(escape.Patience) == "" {
					t.Errorf("it did not end: %s", escape.Describe(c.Server.PID))
				}
				w.clean()
			})
		}
	}
}

// A process of the same user may not take the launcher's descriptors, by which it could say what the
// supervisor believes. TestEscape has one that tries to trace the supervisor.
func TestLauncherKeepsTracersOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := []string{"setpriv", "--reuid", fmt.Sprint(attacker), "--regid", fmt.Sprint(attacker), "--clear-groups"}
	m := escape.NewMembers(t)
	line := append(as[:len(as):len(as)], readable(t, binaries.mcpscope), "run", "--", readable(t, binaries.Zoo), "--register", m.Address, "plain")
	c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
	if err := m.UntilReady(escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
	}
	probe := w.Command(append(as, "readlink", fmt.Sprintf("/proc/%d/fd/0", c.Server.PID))...)
	if o := w.run(probe); o.status == 0 {
		t.Errorf("a process of its user can look at its descriptors: %s", o.stdout)
	}
	c.Tell("close")
	if n := m.UntilDead(escape.Patience); n > 0 {
		t.Errorf("%d members left", n)
	}
}

// Who asks for tree does not overrule who wants more.
func TestRequireRefusesTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	checkRefusal(t, w.run(w.mcpscope("run", "--backend", "tree", "--require", "--", "true")), failed)
	cmd := w.mcpscope("run", "--require", "--", "true")
	cmd.Env = append(cmd.Env, "MCPSCOPE_BACKEND=tree")
	checkRefusal(t, w.run(cmd), failed)
	checkSuccess(t, w.run(w.mcpscope("run", "--require", "--backend", "cgroup", "--", "true")))
}

// Two ask at a time for the end of an orphan: each returns when it has come.
func TestSecondStopOfAnOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orphan := orphaned(t, startServer(w, []string{"--group"}, nil, binaries.probe))
	_, id := orphan.members.Main()
	first := w.mcpscope("stop", "--grace", "3s", id)
	w.Start(w.Dir, first)
	defer func() { _ = first.Wait() }() // the test looks at the second
	orphan.told(1, escape.Patience)
	// on a busy machine the first may be done before the second has looked
	if o := w.run(w.mcpscope("stop", id)); o.status != 0 && !strings.Contains(o.stderr, "there is no server") {
		t.Errorf("stop ended with %v; stderr: %s", o.status, o.stderr)
	}
	if left := orphan.members.Running(); len(left) > 0 {
		t.Errorf("it said that it was stopped, and there are %q", left)
	}
}

// A server can be stopped from its very first moment.
func TestStopMeetsAStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rounds := 20
	if escape.Full() {
		rounds = 200
	}
	for i := range rounds {
		name := fmt.Sprintf("met%d.%d", os.Getpid(), i) // not --all: trees are seen in every world
		cmd := w.mcpscope("run", "--name", name, "--term-grace", "300ms", "--", "sleep", "1000")
		said, err := escape.OpenMemory("stderr")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = said
		w.Start(w.Unique("client"), cmd)
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // how is looked at
			close(ended)
		}()
		for stopped := false; !stopped; {
			w.run(w.mcpscope("stop", name))
			select {
			case <-ended:
				stopped = true
			default:
			}
		}
		if code := cmd.ProcessState.ExitCode(); code == 125 || escape.Contents(said) != "" {
			t.Errorf("ended with %v; stderr: %s", cmd.ProcessState, escape.Contents(said))
		}
		said.Close()
	}
	w.clean()
}

// The limit of a file's size goes for memory files, too.
func TestNoFileMayBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, backend := range []string{"cgroup", "tree"} {
		checkSuccess(t, w.run(w.spoiled(`ulimit -f 0; exec "$@"`, "run", "--backend", backend, "--", "true")))
	}
	w.clean()
}

// However few descriptors there are, what was begun is undone.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := 4; n <= 40; n++ {
		for _, backend := range []string{"cgroup", "tree"} {
			o := w.run(w.spoiled(fmt.Sprintf(`ulimit -n %d; exec "$@"`, n), "run", "--backend", backend, "--", "true"))
			if o.status == 0 {
				checkSuccess(t, o)
			} else {
				checkRefusal(t, o, failed)
			}
			if left := w.groups(); len(left) > 0 {
				t.Fatalf("%d descriptors, %s: left %v; stderr: %s", n, backend, left, o.stderr)
			}
		}
	}
}

// However few processes more a user may have, there is a server or one line that says why not.
func TestFewProcesses(t *testing.T) {
	t.Parallel()
	const others = 50
	w := newWorld(t)
	as := []string{"setpriv", "--reuid", fmt.Sprint(attacker - 1), "--regid", fmt.Sprint(attacker - 1), "--clear-groups"}
	program, zoo := readable(t, binaries.mcpscope), readable(t, binaries.Zoo)
	m := escape.NewMembers(t)
	b := w.Bystander("with many children", w.Unique("others"), w.Command(append(as, zoo, "--register", m.Address, fmt.Sprintf("children-%d", others))...))
	if err := m.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Kill)
	ran, refused := 0, 0
	for n := others + 8; n <= others+72; n += 4 {
		line := append(as[:len(as):len(as)], "prlimit", fmt.Sprintf("--nproc=%d:%d", n, n), program, "run", "--", "true")
		if o := w.run(w.Command(line...)); o.status == 0 {
			checkSuccess(t, o)
			ran++
		} else {
			checkRefusal(t, o, failed)
			refused++
		}
	}
	if ran == 0 || refused == 0 {
		t.Errorf("%d ran and %d were refused: this tests nothing", ran, refused)
	}
	if !b.Lives() {
		t.Error("the other processes were hit")
	}
}

// A server that uses up all processes of its user leaves launcher and supervisor no new thread, and ends as any other.
func TestServerThatUsesUpAllProcesses(t *testing.T) {
	t.Parallel()
	const limit = 150
	for i, end := range []struct {
		name string
		do   func(*escape.Client)
	}{
		{"stdin", func(c *escape.Client) { c.Tell("close") }},
		{"TERM", func(c *escape.Client) { c.Tell("signal %d", unix.SIGTERM) }},
		{"launcher", func(c *escape.Client) { c.Server.Signal(unix.SIGKILL) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t), escape.NewMembers(t)
			user := fmt.Sprint(attacker - 10 - i) // who has no other processes, which would count for the limit
			line := []string{"setpriv", "--reuid", user, "--regid", user, "--clear-groups", "prlimit", fmt.Sprintf("--nproc=%d:%d", limit, limit),
				readable(t, binaries.mcpscope), "run", "--eof-grace", "300ms", "--term-grace", "300ms", "--", readable(t, binaries.Zoo), "--register", m.Address, "use-up"}
			c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
			}
			reserved(t, m)
			c.Tell("write now")
			if !m.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) {
				t.Fatalf("it did not use them up; stderr: %.300s", escape.Contents(c.Stderr))
			}
			end.do(c)
			if n := m.UntilDead(escape.Patience); n > 0 {
				t.Errorf("%d of %d members left", n, m.Count())
				m.Kill()
			}
			if c.Status(escape.Patience) == "" {
				t.Errorf("it did not end: %s", escape.Describe(c.Server.PID))
			}
			if said := escape.Contents(c.Stderr); said != "" {
				t.Errorf("stderr: %.300s", said)
			}
		})
	}
}

// reserved waits for the threads that the supervisor starts after the server, which it needs when there can be no more:
// a second at most, for nothing tells how many it should have.
func reserved(t *testing.T, m *escape.Members) {
	t.Helper()
	main, _ := m.Main()
	supervisor, err := escape.ParentProcess(main)
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	for deadline := time.Now().Add(time.Second); ; {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", supervisor.PID))
		if err != nil || len(threads) > 10 || time.Now().After(deadline) {
			return
		}
	}
}

// An answer of half a MiB, to a client that takes its time to read.
func TestAnswerToAClientThatReadsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const size = 512 << 10
	cmd := w.mcpscope("run", "--", "sh", "-c", fmt.Sprintf("cat; head -c %d /dev/zero", size))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Start(w.Unique("client"), cmd)
	in.Close()
	late := time.NewTimer(2500 * time.Millisecond) // which is what this client is: longer than both graces together
	<-late.C
	text := make([]byte, size+1)
	n, _ := readFull(out, text)
	if err := cmd.Wait(); err != nil || n != size {
		t.Errorf("%d bytes came of %d, and it ended with %v", n, size, err)
	}
	w.clean()
}

func readFull(out interface{ Read([]byte) (int, error) }, text []byte) (n int, err error) {
	for n < len(text) && err == nil {
		var m int
		m, err = out.Read(text[n:])
		n += m
	}
	return n, err
}

// spawned starts a server on these descriptors; its client has nothing but its own life.
func spawned(t *testing.T, stdin, stdout *os.File, flags, command []string, more ...*os.File) *server {
	t.Helper()
	w := newWorld(t)
	s := &server{world: w, members: escape.NewMembers(t)}
	line := append(append([]string{binaries.mcpscope, "run"}, flags...), "--", command[0], "--register", s.members.Address)
	line = append(line, command[1:]...)
	files := append([]*os.File{stdin, stdout}, more...)
	s.Client = w.NewClient(w.Unique("spawner"), []string{"--group", "--stdin", "3", "--stdout", "4"}, line, files...)
	if err := s.members.UntilReady(escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(s.Stderr))
	}
	s.group, s.supervisor = w.find(s.members)
	return s
}

func openNull(t *testing.T) *os.File {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	return null
}

// A careless client has passed the writing end of stdin on to the server.
func TestClientDiesWhoseServerHoldsItsOwnStdin(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"pipe", "socket"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			read, write := ends(t, kind)
			fmt.Fprintln(write, "burn 60000")
			s := spawned(t, read, openNull(t), nil, []string{binaries.probe}, write)
			read.Close()
			write.Close()
			s.Own.Signal(unix.SIGKILL)
			s.told(1, escape.Patience)
			s.dead(escape.Patience)
		})
	}
}

// ends are those of a pipe, or of a socket as Node.js has it.
func ends(t *testing.T, kind string) (read, write *os.File) {
	t.Helper()
	if kind == "pipe" {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return read, write
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "server's"), os.NewFile(uintptr(fds[1]), "client's")
}

// Nobody can tell a server anything that has closed its stdin.
func TestClientDiesWhoseServerHasClosedStdin(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close() // held open until the end
	fmt.Fprintln(write, "close 0")
	s := spawned(t, read, openNull(t), nil, []string{binaries.probe})
	read.Close()
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) {
		t.Fatal("it has not closed its stdin")
	}
	awaitRelease(t, fmt.Sprintf("pipe:[%d]", inode(t, write)), os.Getpid(), s.Own.PID)
	start := time.Now()
	s.Own.Signal(unix.SIGKILL)
	within(t, "SIGTERM", s.told(1, escape.Patience).Sub(start), 0, 0)
	s.dead(escape.Patience)
}

func inode(t *testing.T, file *os.File) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// awaitRelease waits until nobody but these has a pipe: what the tests start has copies of it between
// fork and exec, of which nothing tells.
func awaitRelease(t *testing.T, pipe string, but ...int) {
	t.Helper()
	var others []int
	for deadline := time.Now().Add(escape.Patience); time.Now().Before(deadline); {
		others = nil
		for pid := range escape.Parents() {
			if files, _ := escape.OpenFiles(pid); slices.Contains(files, pipe) && !slices.Contains(but, pid) {
				others = append(others, pid)
			}
		}
		if len(others) == 0 {
			return
		}
	}
	t.Fatalf("%v have %s, too", others, pipe)
}

// With a file as stdin nothing tells of a client but its death.
func TestClientDiesWithoutPipes(t *testing.T) {
	t.Parallel()
	null := openNull(t)
	s := spawned(t, null, null, []string{"--on-client-death", "stop"}, []string{binaries.Zoo, "ignore-eof"})
	s.Own.Signal(unix.SIGKILL)
	s.dead(escape.Patience)
}
