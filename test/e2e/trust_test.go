// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/facts"
	"github.com/mcpscope/mcpscope/test/pace"
)

// attacker is another user.
const attacker = 65533

// delegate gives a user a cgroup, as an administrator does.
func (w *world) delegate(name string) string {
	w.T.Helper()
	dir := w.Group(name)
	if err := bed.Delegate(dir, attacker); err != nil {
		w.T.Fatal(err)
	}
	return dir
}

// forge makes a group as the attacker; it is armed, and as old as one likes.
func (w *world) forge(dir, name string) string {
	w.T.Helper()
	o, err := escape.Finish(dir, w.Command(as(attacker, "mkdir", "-m", "700", w.Seen(filepath.Join(dir, name)))...))
	if err != nil || o.Status != 0 {
		w.T.Fatalf("the attacker: %v, %v: %s", o.Status, err, o.Stderr)
	}
	facts.Set(w.T, filepath.Join(dir, name), func(f *protocol.Facts) { f.Name, f.Started = "forged", 1 })
	return filepath.Join(dir, name)
}

// A server is for its own user and root.
func TestAnothersServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	program := readable(t, binaries.mcpscope)
	_, id := s.members.Main()
	for _, command := range []string{"stop", "freeze", "inspect"} {
		o := w.run(w.Command(as(attacker, program, command, id)...))
		if o.Status.ExitStatus() != 1 || o.Stdout != "" || !strings.Contains(o.Stderr, id) {
			t.Errorf("%s: %v, %q; stderr: %s", command, o.Status, o.Stdout, o.Stderr)
		}
	}
	// that user may have trees of other tests, which all see
	if o := w.run(w.Command(as(attacker, program, "ls")...)); o.Status != 0 || strings.Contains(o.Stdout, id) {
		t.Errorf("ls: %v, %q; stderr: %s", o.Status, o.Stdout, o.Stderr)
	}
	if !s.Lives("still there?") {
		t.Error("the server was hit")
	}
}

// Ids are no secret: they are names of directories.
func TestForgedGroupWithTheIDOfAnothersServer(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"sweep --all-users", "stop --all-users --grace 0 forged"} {
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
			s.dead()
		})
	}
}

// A server can make its group unreadable for its user. ls lists the others and names the unreadable group.
func TestLsBesideAGroupThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.delegate("theirs")
	program := readable(t, binaries.mcpscope)
	ids := []string{"abcdefgh", "stuvwxyz"}
	for _, id := range ids {
		w.forge(dir, "mcp-forged-"+id)
	}
	for i, hidden := range ids { // whichever comes first in the directory
		unreadable := filepath.Join(dir, "mcp-forged-"+hidden)
		if err := os.Chmod(unreadable, 0); err != nil {
			t.Fatal(err)
		}
		o, err := escape.Finish(dir, w.Command(as(attacker, program, "ls", "--json")...))
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

// Another user can make any number of directories. Root's commands read some of them, and say so. They find the
// servers of all others.
func TestManyDirectoriesOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.delegate("theirs")
	w.forge(dir, "mcp-forged-abcdefgh")
	many := filepath.Join(dir, "mcp-forged-abcdefgh")
	for i := range 4001 {
		if err := os.Mkdir(filepath.Join(many, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	_, id := s.members.Main()
	unread := fmt.Sprintf("user %d has more than 4000 directories in %s: servers in the others are not found", attacker, w.Seen(dir))
	for _, c := range []struct {
		command string
		status  int
		says    bool
	}{
		{command: "ls"},
		{command: "metrics"},
		{command: "sweep --dry-run"},
		{command: "ls --all-users", status: 1, says: true},
		{command: "metrics --all-users"}, // a figure says it
		{command: "sweep --dry-run --all-users", status: 1, says: true},
		{command: "stop nobody", status: 1, says: true},
		{command: "stop --all --all-users --yes --client nobody", status: 1},
		{command: "stop " + id},
		{command: "stop nobody", status: 1, says: true}, // beside no other server
	} {
		o := w.run(w.mcpscope(strings.Fields(c.command)...))
		if o.Status.ExitStatus() != c.status || strings.Contains(o.Stderr, unread) != c.says {
			t.Errorf("%s: %v; stderr: %s", c.command, o.Status, o.Stderr)
		}
		isList := strings.HasPrefix(c.command, "ls") || strings.HasPrefix(c.command, "metrics")
		if isList && !strings.Contains(o.Stdout, id) {
			t.Errorf("%s does not list root's server: %s", c.command, o.Stdout)
		}
		if c.command == "metrics --all-users" && !strings.Contains(o.Stdout, "mcpscope_servers_readable 0") {
			t.Errorf("the figures do not say that servers are not found: %s", o.Stdout)
		}
	}
	s.dead()
}

// forger starts e2e/forger and returns when it is ready. It ends with the test.
func (w *world) forger(files []*os.File, args ...string) {
	w.T.Helper()
	cmd := w.Command(append([]string{binaries.forger, fmt.Sprint(attacker)}, args...)...)
	cmd.ExtraFiles = files
	talk := escape.StartTalk(w.T, cmd, func() error { return escape.StartIn(w.Unique("forger"), cmd) })
	talk.Line()
}

// A user's process can have children of root's: sudo makes some. Other tests see the tree, and have no server of this name.
func TestForgedTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	childIn, in := ends(t, "pipe")
	out, childOut := ends(t, "pipe")
	w.forger([]*os.File{childIn, childOut}, readable(t, binaries.mcpscope), binaries.Zoo, "plain")
	childIn.Close()
	childOut.Close()
	child := escape.NewBystander("root's child of the forger", in, out)
	if o := w.run(w.mcpscope("ls", "--all-users")); !strings.Contains(o.Stdout, "forged-tree") {
		t.Fatalf("nobody takes it for a guard: %q; stderr: %s", o.Stdout, o.Stderr)
	}
	for _, command := range []string{"sweep", "freeze forged-tree", "stop --grace 0 forged-tree", "metrics"} {
		line := strings.Fields(command)
		if line[0] != "freeze" { // which finds other users' servers by name
			line = append(line, "--all-users")
		}
		w.run(w.mcpscope(line...))
		if !child.Lives() {
			t.Fatalf("%s: a process of root's was hit", command)
		}
	}
}

// A sweep trusts a lock that no guard holds, and a launcher that it cannot see, for a while, but only once
// for all groups together: each sweep stops some groups, if not all.
func TestManyForgedGroupsDelayOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.delegate("delegated")
	zoo := readable(t, binaries.Zoo)
	var held []*escape.Bystander
	for i := range 8 {
		group := w.forge(dir, fmt.Sprintf("mcp-evil-abcdefg%c", 'a'+i))
		facts.Set(t, group, func(f *protocol.Facts) { f.Launcher = protocol.Identity{PID: 1, Start: 1, Namespace: 1} })
		line := as(attacker, "flock", w.Seen(group), zoo, "ignore-both")
		held = append(held, w.Bystander("of the attacker", group, w.Command(line...)))
	}
	for _, b := range held {
		if !b.Lives() {
			t.Fatal("a process of the attacker's is not up")
		}
	}
	for range len(held) {
		if o := w.run(w.mcpscope("sweep", "--all-users")); o.Status.Signaled() {
			t.Fatalf("%v; stderr: %s", o.Status, o.Stderr)
		}
		held = slices.DeleteFunc(held, func(b *escape.Bystander) bool { return !b.Lives() })
		if len(held) == 0 {
			return
		}
	}
	t.Errorf("%d groups without a guard live on: their lock and their launcher were believed", len(held))
}

// Other programs' cgroups can have names like ours.
func TestSweepSparesForeignDirectories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := time.Now().Add(-time.Hour)
	foreign := []string{
		"mcp-web-database", "mcp-web-database/worker", "other", "other/mcp-web-database",
		"mcp-odd-database", "mcp-odd-database/payload", "mcp-odd-database/payload/job", "mcp-run-database", "mcp-run-database/payload",
	}
	for _, dir := range foreign {
		if err := os.Mkdir(filepath.Join(w.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inside := w.Plain("in a foreign cgroup", filepath.Join(w.Dir, "mcp-run-database/payload"))
	for _, dir := range foreign {
		if err := os.Chtimes(filepath.Join(w.Dir, dir), long, long); err != nil {
			t.Fatal(err)
		}
	}
	w.wantSuccess("sweep", "--quiet")
	w.wantSuccess("sweep", "--all-users", "--quiet")
	for _, dir := range foreign {
		if _, err := os.Stat(filepath.Join(w.Dir, dir)); err != nil {
			t.Errorf("a cgroup of another program is gone: %v", err)
		}
	}
	if !inside.Lives() {
		t.Error("a process in a cgroup of another program was hit")
	}
}

// usurped starts a server that kills launcher and guard, and then forges the state of its group.
func usurped(t *testing.T, w *world, mode string) *server {
	t.Helper()
	s := startServer(w, []string{"--group"}, nil, binaries.Zoo, mode)
	s.acts()
	if !s.Server.Ended(escape.Patience) || !s.guard.Ended(escape.Patience) {
		t.Fatal("a guard lives: this tests nothing")
	}
	if len(s.members.Running()) == 0 {
		t.Fatal("nobody lives: this tests nothing")
	}
	return s
}

// A server that writes to its group may delay its stop, but cannot prevent it.
func TestUsurpedGroups(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"foreign-launcher", "false-guard", "lock-directory", "disarm"} {
		for _, means := range []string{"sweep", "stop", "start"} {
			if means != "sweep" && mode != "false-guard" {
				continue // the other means check a group in the same way
			}
			t.Run(mode+"/"+means, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				s := usurped(t, w, mode)
				_, id := s.members.Main()
				switch means {
				case "sweep":
					w.wantSuccess("sweep", "--quiet")
				case "stop":
					w.wantSuccess("stop", "--grace", soon, id)
				case "start":
					next := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain") // it sweeps when it runs
					s.members.UntilDead(escape.Patience)
					next.Tell("close")
					next.dead()
				}
				if left := s.members.Running(); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				w.clean()
			})
		}
	}
}

// claimsLongGrace starts a server that ignores signals and has claimed a grace without end.
func claimsLongGrace(t *testing.T, flags []string, command ...string) *server {
	t.Helper()
	s := startServer(newWorld(t), []string{"--group"}, flags, append([]string{binaries.Zoo}, command...)...)
	s.acts()
	return s
}

// acts has a mode of the zoo that waits for a line do what it is for.
func (s *server) acts() {
	s.world.T.Helper()
	s.Tell("write now")
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) {
		s.world.T.Fatal("it did not say that it has done it")
	}
}

// A server that begins its own stop can give it no longer grace than its client has.
func TestServerThatClaimsALongGrace(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server){
		"launcher": func(s *server) { s.Server.Signal(unix.SIGKILL) },
		"sweep": func(s *server) {
			s.Server.Signal(unix.SIGKILL)
			s.world.wantSuccess("sweep", "--quiet")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := claimsLongGrace(t, nil, "--target", "parent", "long-grace")
			end(s)
			s.dead()
		})
	}
}

// A grace that a server writes into its directory neither prevents mcpscope stop nor delays it.
func TestStopOfAServerThatClaimsALongGrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, stop []string }{
		{nil, nil},
		{nil, []string{"--grace", "0"}},
		{[]string{"--term-grace", never}, []string{"--grace", soon}},
	} {
		t.Run(fmt.Sprint(c.flags, c.stop), func(t *testing.T) {
			t.Parallel()
			s := claimsLongGrace(t, c.flags, "long-grace")
			_, id := s.members.Main()
			s.world.wantSuccess(append(append([]string{"stop"}, c.stop...), id)...)
			s.dead()
		})
	}
}

// A process whose parent exits in another pid namespace is re-parented to the first process there. While a launcher lives that
// has no other descendants, such a process is taken for the container's.
func TestMemberInAForeignPidNamespace(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server){
		"launcher": func(s *server) { s.Server.Signal(unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			bystander := w.Bystander("with a pid namespace of its own", w.Unique("bystander"),
				w.Command("unshare", "--pid", "--fork", "--kill-child", binaries.Zoo, "plain"))
			if !bystander.Lives() {
				t.Fatal("the bystander is not up")
			}
			s := startServer(w, []string{"--group"}, []string{"--eof-grace", soon, "--term-grace", soon}, binaries.Zoo,
				"--sibling", w.Seen(w.Unique("sibling")), "--target", fmt.Sprint(bystander.Cmd.Process.Pid), "foreign-namespace")
			if n := len(s.members.Running()); n < 2 {
				t.Errorf("%d members live: this tests nothing", n)
			}
			end(s)
			s.dead()
			if !bystander.Lives() {
				t.Error("the bystander was hit")
			}
		})
	}
}

// A tracer that holds the launcher prevents no stop: the guard sees the end of stdin as well. The server is dead
// then, and so the launcher is free.
func TestTracedLauncher(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"cgroup", "tree", "cgroup", "tree"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			line := []string{binaries.mcpscope, "run", "--backend", backend, "--term-grace", soon, "--", binaries.seizer}
			c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
			c.Expect("out up")
			c.Tell("close")
			if c.Status(escape.Patience) == "" {
				t.Errorf("it did not end: %s", escape.Describe(c.Server.PID))
			}
			w.clean()
		})
	}
}

// A process of the same user may not take the launcher's descriptors, with which it could send the guard
// false messages. In TestEscape a mode tries to trace the guard.
func TestLauncherKeepsTracersOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := escape.NewMembers(t)
	line := as(attacker, readable(t, binaries.mcpscope), "run", "--", readable(t, binaries.Zoo), "--register", m.Address, "plain")
	c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
	if err := m.UntilReady(escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
	}
	probe := w.Command(as(attacker, "readlink", fmt.Sprintf("/proc/%d/fd/0", c.Server.PID))...)
	if o := w.run(probe); o.Status == 0 {
		t.Errorf("a process of its user can look at its descriptors: %s", o.Stdout)
	}
	c.Tell("close")
	m.WantDead(t)
}

// However few more processes a user may have, the server runs or one line gives the reason why not.
func TestFewProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := lonely(0)
	program := readable(t, binaries.mcpscope)
	ran := 0
	refused := 0
	for n := 8; n <= 68; n += 6 {
		o := w.run(w.Command(as(user, "prlimit", fmt.Sprintf("--nproc=%d:%d", n, n), program, "run", "--", "true")...))
		if o.Status == 0 {
			if o.Stdout != "" || o.Stderr != "" { // not as if mcpscope was not there
				t.Errorf("stdout: %q; stderr: %q", o.Stdout, o.Stderr)
			}
			ran++
		} else {
			checkRefusal(t, o)
			refused++
		}
	}
	if ran == 0 {
		t.Errorf("none ran, and %d were refused: this tests nothing", refused)
	}
}

// A server that uses up its user's processes leaves launcher and guard no new thread, and ends as any other.
// With one processor and many garbage collections the launcher would start threads late, and often.
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
			w := newWorld(t)
			m := escape.NewMembers(t)
			line := as(lonely(1+i), "prlimit", fmt.Sprintf("--nproc=%d:%d", limit, limit), "env", "GOGC=1", "GOMAXPROCS=1", readable(t, binaries.mcpscope), "run",
				"--eof-grace", soon, "--term-grace", soon, "--", readable(t, binaries.Zoo), "--register", m.Address, "use-up")
			c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
			}
			main, _ := m.Main()
			list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.Server.PID))
			if err != nil || !slices.Contains(strings.Fields(string(list)), fmt.Sprint(main.PID)) {
				t.Errorf("the first thread of the launcher has the children %q, without the server (%v)", list, err)
			}
			c.Tell("write now")
			if !m.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) {
				t.Fatalf("it did not use them up; stderr: %.300s", escape.Contents(c.Stderr))
			}
			end.do(c)
			m.WantDead(t)
			m.Kill()
			if c.Status(escape.Patience) == "" {
				t.Errorf("it did not end: %s", escape.Describe(c.Server.PID))
			}
			if said := escape.Contents(c.Stderr); said != "" {
				t.Errorf("stderr: %.300s", said)
			}
		})
	}
}

// An answer is larger than the pipe, and the client reads it late. The guard polls the pipe until the
// client has read the answer; otherwise it would wait for the end of the grace, an hour.
func TestAnswerToAClientThatReadsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const size, looks = 512 << 10, 20
	cmd := w.mcpscope("run", "--eof-grace", "1h", "--", "head", "-c", strconv.Itoa(size), "/dev/zero")
	read, write := ends(t, "pipe")
	cmd.Stdout = write
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := escape.StartIn(w.Unique("client"), cmd); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if !pace.Eventually(escape.Patience, func() bool {
		room := []unix.PollFd{{Fd: int32(write.Fd()), Events: unix.POLLOUT}}
		_, err := unix.Poll(room, 0)
		return err == nil && room[0].Revents == 0
	}) {
		t.Fatal("the server does not fill the pipe")
	}
	write.Close()
	stdin.Close()
	looked := 0
	last := 0
	if !pace.Eventually(escape.Patience, func() bool {
		if now := contextSwitches(w.onlyGuard()); now != last {
			looked = looked + 1
			last = now
		}
		return looked > looks
	}) {
		t.Errorf("the guard has run %d times, want %d: it does not look at the pipe", looked, looks)
	}
	n, _ := io.Copy(io.Discard, read) // n is checked below
	if err := cmd.Wait(); err != nil || n != size {
		t.Errorf("%d bytes came of %d, and it ended with %v", n, size, err)
	}
	w.clean()
}

// onlyGuard is the pid of the only guard, or 0.
func (w *world) onlyGuard() int {
	pids, _ := escape.GroupPids(filepath.Join(rootsSlice(w.Site), "guards")) // none before the first server
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // none, if it has ended
		if strings.HasPrefix(string(name), "guard-") {
			return pid
		}
	}
	return 0
}

// spawned starts a server on these descriptors. Its client does nothing but live.
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
	s.group, s.guard = w.find(s.members)
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
	onKinds(t, func(t *testing.T, kind string) {
		read, write := ends(t, kind)
		fmt.Fprintln(write, "burn 60000")
		s := spawned(t, read, openNull(t), nil, []string{binaries.probe}, write)
		read.Close()
		write.Close()
		s.Own.Signal(unix.SIGKILL)
		s.told(1)
		s.dead()
	})
}

// Another process that holds the client's end is the client when the first one has died. Here the server holds its
// own stdin as well, so no hang-up tells the end of that.
func TestClientDiesAndAnotherProcessHoldsStdin(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		read, write := ends(t, kind)
		fmt.Fprintln(write, "burn 60000")
		s := spawned(t, read, openNull(t), nil, []string{binaries.probe}, write)
		read.Close()
		holder := holding(t, s.world, write, "sleep", "infinity")
		write.Close()
		s.Own.Signal(unix.SIGKILL)
		if !pace.Eventually(escape.Patience, func() bool { return hasPidfdOf(s.guard.PID, holder.Process.Pid) }) {
			t.Error("the guard does not watch the holder")
		}
		if said := len(s.signals()); said > 0 {
			t.Errorf("%d members got a signal while the holder lives", said)
		}
		_ = holder.Process.Kill()
		_ = holder.Wait() // killed
		s.told(1)
		s.dead()
	})
}

// A client that closes nothing at exec has passed its end on to another server. That is no client.
func TestClientDiesAndAnotherServerHoldsStdin(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		read, write := ends(t, kind)
		fmt.Fprintln(write, "burn 60000")
		s := spawned(t, read, openNull(t), nil, []string{binaries.probe})
		read.Close()
		other := holding(t, s.world, write, binaries.mcpscope, "run", "--", "sh", "-c", "echo; exec sleep infinity")
		write.Close()
		s.Own.Signal(unix.SIGKILL)
		s.told(1)
		s.members.WantDead(t)
		_ = other.Process.Kill()
		_ = other.Wait() // killed
	})
}

// holding starts a command that has the descriptor as 3, and returns when it has, or at once if it writes no line.
func holding(t *testing.T, w *world, file *os.File, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := w.Command(argv...)
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := escape.StartIn(w.Unique("holder"), cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	if argv[0] == binaries.mcpscope {
		_, _ = out.Read(make([]byte, 1))
	}
	return cmd
}

// hasPidfdOf reports whether a process has another one open (proc_pid_fdinfo(5)).
func hasPidfdOf(pid, other int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // none, if it was closed
		if strings.Contains(string(text), fmt.Sprintf("\nPid:\t%d\n", other)) {
			return true
		}
	}
	return false
}

// ends returns the ends of a pipe, or of a socketpair as Node.js uses.
func ends(t *testing.T, kind string) (read, write *os.File) {
	t.Helper()
	if kind == "pipe" {
		return bed.Pipe(t)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "server's"), os.NewFile(uintptr(fds[1]), "client's")
}

// A server that has closed its stdin cannot see the death of its client.
func TestClientDiesWhoseServerHasClosedStdin(t *testing.T) {
	t.Parallel()
	read, write := bed.Pipe(t) // held open until the end
	fmt.Fprintln(write, "close 0")
	s := spawned(t, read, openNull(t), nil, []string{binaries.probe})
	read.Close()
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) {
		t.Fatal("it has not closed its stdin")
	}
	s.Own.Signal(unix.SIGKILL)
	s.told(1)
	s.dead()
}

// A file as stdin never reports the client's death, so the launcher must watch the client.
func TestClientDiesWithoutPipes(t *testing.T) {
	t.Parallel()
	null := openNull(t)
	s := spawned(t, null, null, []string{"--on-client-death", "stop"}, []string{binaries.Zoo, "ignore-eof"})
	s.Own.Signal(unix.SIGKILL)
	s.dead()
}

// A server whose client allows few open files is in its group, or it does not start. One value of the limit had it
// run outside: its guard could receive no descriptor of the group.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := func(argv ...string) escape.Outcome { return w.run(w.Command(argv...)) }
	escape.FewDescriptors(t, run, binaries.mcpscope)
	w.clean()
}
