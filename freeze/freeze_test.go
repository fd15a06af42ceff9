// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/groups"
)

// halfListed can list its members only in part, the first time.
type halfListed struct {
	Target
	lists int
}

func (h *halfListed) Members() ([]int, error) {
	if h.lists++; h.lists == 1 {
		return []int{os.Getpid()}, unix.EIO
	}
	return nil, nil
}

func TestSignalReportsAListThatIsNotWhole(t *testing.T) {
	if err := Signal(&halfListed{}, unix.SIGCONT); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
}

// script is a shell of the test's.
type script struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

// shell runs a script, born in g if there is one; it is ready when it has printed a line.
func shell(t *testing.T, g *cgroup.Group, text string) *script {
	t.Helper()
	s := &script{Cmd: exec.Command("/bin/sh", "-c", text)}
	if g != nil {
		s.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	}
	in, inErr := s.StdinPipe()
	out, outErr := s.StdoutPipe()
	if err := errors.Join(inErr, outErr, s.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	})
	s.in = in
	s.out = bufio.NewReader(out)
	s.await(t)
	return s
}

// await waits for a line.
func (s *script) await(t *testing.T) {
	t.Helper()
	if _, err := s.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

func awaitEmpty(t *testing.T, g *cgroup.Group) {
	t.Helper()
	if err := bed.WaitEmpty(g.Path(), escape.Patience); err != nil {
		t.Fatal(err)
	}
}

// freeze does what has a bound in the product as often as a busy machine needs.
func freeze(g Target) {
	for !Freeze(g) {
		runtime.Gosched()
	}
}

func TestFreezeWaits(t *testing.T) {
	g := groups.Directory(t)
	shell(t, g, `for i in 1 2 3; do while :; do :; done & done; echo; wait`)
	freeze(g)
	b, err := os.ReadFile(filepath.Join(g.Path(), "cgroup.events"))
	if err != nil || !strings.Contains(string(b), "frozen 1") {
		t.Fatalf("returned before frozen 1: %q", b)
	}
	if err := g.Thaw(); err != nil {
		t.Fatal(err)
	}
}

// A member may have frozen a group below, and could not act on the signal there.
func TestAskReachesWhoIsFrozenOrStopped(t *testing.T) {
	g := groups.Directory(t)
	below, err := g.Mkdir("below", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	// no children: before its execve a child has the shell's trap, and loses the signal
	frozen := shell(t, below, `trap 'exit 7' TERM; echo; while :; do :; done`)
	stopped := shell(t, g, `trap 'exit 8' TERM; echo; kill -STOP $$; while :; do :; done`)
	if err := unix.Waitid(unix.P_PID, stopped.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	freeze(below)
	killed := func() { t.Error("had to kill who would have gone when asked") }
	if _, err := (Stop{Target: g, Request: unix.SIGTERM, Grace: Forever, Frozen: killed}).Run(); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, g)
	for cmd, want := range map[*script]int{frozen: 7, stopped: 8} {
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s ended with %d, want %d", cmd.Args[2], got, want)
		}
	}
}

// A member that has got the signal already does not get it again.
func TestAskLeavesOutMembers(t *testing.T) {
	g := groups.Directory(t)
	const text = `trap 'exit 9' TERM; trap 'exit 5' WINCH; echo; while :; do sleep 0.01; done`
	asked := shell(t, g, text)
	leftOut := shell(t, g, text)
	Ask(g, unix.SIGTERM, leftOut.Process.Pid)
	_ = leftOut.Process.Signal(unix.SIGWINCH) // a shell handles SIGTERM before it
	for cmd, want := range map[*script]int{asked: 9, leftOut: 5} {
		_ = cmd.Wait() // for the status
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("the member ended with %d, want %d", got, want)
		}
	}
}

func TestLadderKillsWhoIgnores(t *testing.T) {
	g := groups.Directory(t)
	shell(t, g, `trap '' TERM INT; echo; while :; do sleep 1; done`)
	seen := false
	begin := time.Now()
	stop := Stop{Target: g, Request: unix.SIGTERM, Grace: 200 * time.Millisecond}
	stop.Frozen = func() { seen = true }
	left, err := stop.Run()
	if err != nil || len(left) > 0 || !seen {
		t.Fatalf("%+v, %v, saw the frozen group: %v", left, err, seen)
	}
	awaitEmpty(t, g)
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("killed after %v, before the grace was over", took)
	}
}

// A signal does not reach a process that is not a member, even from an old list.
func TestSignalSparesWhoIsNoMember(t *testing.T) {
	g := groups.Directory(t)
	member := shell(t, g, `echo; sleep 1000`)
	bystander := shell(t, groups.Directory(t), `trap 'exit 9' TERM; trap 'exit 5' WINCH; echo; while :; do sleep 0.01; done`)
	pids, err := g.Members()
	if err != nil {
		t.Fatal(err)
	}
	_, err = signalSome(g, append(pids, bystander.Process.Pid), []unix.Signal{unix.SIGTERM})
	if err != nil {
		t.Fatal(err)
	}
	_ = member.Wait()                           // for the end by the signal
	_ = bystander.Process.Signal(unix.SIGWINCH) // a shell handles SIGTERM before it
	_ = bystander.Wait()
	if got := bystander.ProcessState.ExitCode(); got != 5 {
		t.Errorf("the bystander ended with %d, want 5", got)
	}
}

// A signal reaches every member also where few descriptors are free, as in a watcher with hundreds of servers.
func TestSignalWithFewDescriptors(t *testing.T) {
	g := groups.Directory(t)
	var all []*script
	for range 20 {
		all = append(all, shell(t, g, `echo; exec sleep 1000`))
	}
	var open []int
	for range 900 {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, fd)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: uint64(slices.Max(open)) + 1, Max: before.Max}
	for _, fd := range open[:8] {
		_ = unix.Close(fd) // these are free
	}
	open = open[8:]
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few)
	if err == nil {
		err = Signal(g, unix.SIGTERM)
	}
	err = errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	for _, fd := range open {
		_ = unix.Close(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range all {
		_ = cmd.Wait() // for the end by the signal
	}
}

// A member that has become another user, as sudo does, takes no signal of the launcher's user.
func TestKillReachesAnotherUsersMember(t *testing.T) {
	const user = 4001
	g := groups.Directory(t)
	shell(t, g, `echo; exec sleep 1000`)
	if err := os.Chown(filepath.Join(g.Path(), "cgroup.kill"), user, user); err != nil {
		t.Fatal(err)
	}
	var killing sync.WaitGroup
	killing.Go(func() {
		runtime.LockOSThread() // the thread ends with the goroutine: the others are not that user
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, user, user, user); err != 0 {
			t.Error(err)
			return
		}
		_, _ = Kill(g, 0) // a busy machine has some left yet
	})
	killing.Wait()
	awaitEmpty(t, g)
}

func TestEmptyGroup(t *testing.T) {
	g := groups.Directory(t)
	if left, err := (Stop{Target: g, Request: unix.SIGTERM, Grace: time.Hour}).Run(); err != nil || len(left) > 0 {
		t.Fatalf("%+v, %v", left, err)
	}
	if left, err := Kill(g, time.Second); err != nil || len(left) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
}

// asRoot makes the test binary the root of a tree: a subreaper that runs a script, and reaps until its
// stdin is closed.
const asRoot = "TREE_TEST_ROOT"

func TestMain(m *testing.M) {
	if script := os.Getenv(asRoot); script != "" {
		os.Exit(root(script))
	}
	bed.Main(m)
}

func root(script string) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout = os.Stdout
	if cmd.Start() != nil {
		return 1
	}
	go func() {
		for {
			var ws unix.WaitStatus
			if _, err := unix.Wait4(-1, &ws, unix.WALL, nil); err == unix.ECHILD {
				return
			}
		}
	}()
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the test closes it
	return 0
}

// grow starts a root; its script has to print a line when all members are there.
func grow(t *testing.T, script string) (*Tree, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asRoot+"="+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	tr := &Tree{Root: &Root{PID: cmd.Process.Pid, PIDFD: fd}}
	t.Cleanup(func() {
		tr.Spare = nil // the test's
		_ = tr.Kill()
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = unix.Close(fd)
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return tr, cmd
}

func members(t *testing.T, tr *Tree) []int {
	t.Helper()
	pids, err := tr.Members()
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

const family = `sleep 1000 & setsid sh -c 'sleep 1000 & echo; exec sleep 1000' & wait`

func TestMembersAreAllThatDescend(t *testing.T) {
	tr, _ := grow(t, family)
	if got := members(t, tr); len(got) != 4 {
		t.Errorf("%d members, want the shell, and three that sleep", len(got))
	}
	tr.Spare = func(st proc.Stat) (bool, error) { return st.Comm == "sh", nil }
	if got := members(t, tr); len(got) != 0 {
		t.Errorf("%v below one who is spared", got)
	}
}

// A dead root's pid may be another's by now.
func TestADeadRootHasNobody(t *testing.T) {
	tr, cmd := grow(t, `echo; exec sleep 1000`)
	child, err := unix.PidfdOpen(members(t, tr)[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	tr.Root.PID = os.Getpid()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got := members(t, tr); len(got) != 0 {
		t.Errorf("%v below a root that has ended", got)
	}
	// it went to init, or to a subreaper above us
	if err := unix.PidfdSendSignal(child, unix.SIGKILL, nil, 0); err != nil {
		t.Error(err)
	}
}

// Who was stopped below a root that is killed meanwhile is no member any more, and goes on.
func TestNobodyStaysStopped(t *testing.T) {
	tr, cmd := grow(t, `echo; exec sleep 1000`)
	child := members(t, tr)[0]
	fd, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	killRoot := func() {
		freeze(tr)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if left, err := (Stop{Target: tr, Frozen: killRoot}).Run(); err != nil || len(left) > 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if st, err := proc.ReadStat(child); err != nil || st.Stopped() {
		t.Errorf("%d is in state %c (%v)", child, st.State, err)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		t.Error(err)
	}
}

func TestLadder(t *testing.T) {
	tr, cmd := grow(t, family)
	killed := func() { t.Error("had to kill who would have gone when asked") }
	if left, err := (Stop{Target: tr, Request: unix.SIGTERM, Grace: Forever, Frozen: killed}).Run(); err != nil || len(left) > 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if st, err := proc.ReadStat(cmd.Process.Pid); err != nil || st.State == 'Z' {
		t.Errorf("the root was ended with its tree: %+v, %v", st, err)
	}
}

func TestFrozenAndThawed(t *testing.T) {
	tr, _ := grow(t, `for i in 1 2 3; do while :; do :; done & done; echo; wait`)
	freeze(tr)
	for _, pid := range members(t, tr) {
		if st, err := proc.ReadStat(pid); err != nil || st.State != 'T' {
			t.Errorf("%d is in state %c (%v)", pid, st.State, err)
		}
	}
	if err := tr.Thaw(); err != nil {
		t.Fatal(err)
	}
	if st, err := tr.State(); err != nil || st.Frozen || !st.Populated {
		t.Errorf("thawed: %+v, %v", st, err)
	}
}

// Members that are stopped are continued. The others get no SIGCONT: this shell would exit.
func TestThawStopped(t *testing.T) {
	tr, _ := grow(t, `sh -c 'kill -STOP $$' & sh -c 'trap exit CONT; echo; while :; do :; done' & wait`)
	var stopped int
	for stopped == 0 {
		_ = tr.each(func(st proc.Stat) {
			if st.Stopped() {
				stopped = st.PID
			}
		})
	}
	before := members(t, tr)
	if err := ThawStopped(tr); err != nil {
		t.Fatal(err)
	}
	isStopped := func() bool {
		st, err := proc.ReadStat(stopped)
		return err == nil && st.Stopped()
	}
	if isStopped() {
		t.Error("a stopped member was not continued")
	}
	running := slices.DeleteFunc(before, func(pid int) bool { return pid == stopped }) // which exits
	after := slices.DeleteFunc(members(t, tr), func(pid int) bool { return pid == stopped })
	slices.Sort(running)
	slices.Sort(after)
	if !slices.Equal(after, running) {
		t.Errorf("members %v, and before %v", after, running)
	}
}

func TestAwait(t *testing.T) {
	tr, _ := grow(t, `sleep 1000 & echo; wait`)
	if ok, err := AwaitEmpty(tr, time.Now().Add(20*time.Millisecond)); ok || err != nil {
		t.Fatalf("a populated tree counts as empty (%v)", err)
	}
	var signalling sync.WaitGroup
	signalling.Go(func() { _ = Signal(tr, unix.SIGKILL) })
	defer signalling.Wait() // the clean-up changes the tree
	if ok, err := AwaitEmpty(tr, time.Time{}); !ok || err != nil {
		t.Fatalf("the end was not seen (%v)", err)
	}
}

func TestCPU(t *testing.T) {
	tr, _ := grow(t, `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; sleep 1000`)
	if used, err := tr.CPU(); err != nil || used <= 0 || used > time.Hour {
		t.Errorf("used %v", used)
	}
	if none, err := (&Tree{}).CPU(); err != nil || none != 0 {
		t.Errorf("an empty tree has used %v", none)
	}
}

// A tag finds the process and all its later descendants.
func TestTag(t *testing.T) {
	tagged := NewTag(uint64(os.Getpid()))
	beside := NewTag(uint64(os.Getpid()) + 1)
	for _, tag := range []Tag{tagged, beside} {
		s := shell(t, nil, `echo; read x; setsid sh -c 'sleep 1000 & echo; exec sleep 1000' & exec sleep 1000`)
		fd, err := unix.PidfdOpen(s.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := tag.Put(s.Process.Pid, fd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = Stop{Target: &Tree{Tag: tag}}.Run() })
		_, _ = s.in.Write([]byte("go on\n"))
		s.await(t)
	}
	for _, m := range []Tag{tagged, beside} {
		if got := members(t, &Tree{Tag: m}); len(got) != 3 {
			t.Errorf("%d have the tag, want 3", len(got))
		}
	}
	for _, m := range []Tag{0, 1024, ^Tag(0)} { // values that many have
		if got := members(t, &Tree{Tag: m}); len(got) != 0 {
			t.Errorf("%v have the tag %#x", got, uint64(m))
		}
	}
	left, err := Stop{Target: &Tree{Tag: tagged}}.Run()
	if err != nil || len(left) != 0 || len(members(t, &Tree{Tag: tagged})) != 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if got := members(t, &Tree{Tag: beside}); len(got) != 3 {
		t.Errorf("of the others %d are left, want 3", len(got))
	}
}

// A process that has exited gets no tag, and a process that has its pid keeps its limit.
// A member of root's server can change its user.
func TestTagOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	tag := NewTag(uint64(os.Getpid()) + 2)
	sh := shell(t, nil, `echo; read x; exec setpriv --reuid 65534 --clear-groups sh -c 'echo; exec sleep 1000'`)
	fd, err := unix.PidfdOpen(sh.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := tag.Put(sh.Process.Pid, fd); err != nil {
		t.Fatal(err)
	}
	_, _ = sh.in.Write([]byte("go on\n"))
	sh.await(t)
	for owner, want := range map[int]int{0: 1, 65534: 1, 65533: 0} {
		if got := members(t, &Tree{Tag: tag, Owner: owner}); len(got) != want {
			t.Errorf("of user %d: %d members, want %d", owner, len(got), want)
		}
	}
}

func TestTagOfNobody(t *testing.T) {
	var before, after unix.Rlimit
	s := shell(t, nil, "echo; read x")
	fd, err := unix.PidfdOpen(s.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_ = s.Process.Kill()
	_ = s.Wait()
	if err := unix.Getrlimit(unix.RLIMIT_LOCKS, &before); err != nil {
		t.Fatal(err)
	}
	if err := NewTag(1).Put(os.Getpid(), fd); !errors.Is(err, unix.ESRCH) {
		t.Errorf("%v, want %v", err, unix.ESRCH)
	}
	if err := unix.Getrlimit(unix.RLIMIT_LOCKS, &after); err != nil || before != after {
		t.Errorf("the limit was %+v, and is %+v (%v)", before, after, err)
	}
}

// Remove removes a tag, and no other one. ClearTag removes any tag of the calling process.
func TestRemoveAndClearTag(t *testing.T) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer ClearTag()
	for name, remove := range map[string]func(Tag){"remove": func(m Tag) { m.Remove(os.Getpid()) },
		"clear": func(Tag) { ClearTag() }} {
		m := NewTag(3)
		if err := m.Put(os.Getpid(), fd); err != nil {
			t.Fatal(err)
		}
		if NewTag(4).Remove(os.Getpid()); !m.On(os.Getpid()) {
			t.Error("another tag was removed")
		}
		if remove(m); m.On(os.Getpid()) {
			t.Errorf("%s: it carries the tag yet", name)
		}
	}
}
