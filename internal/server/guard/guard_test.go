// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

const patience = 15 * time.Second // on the clock of package pace

// run is a launcher that a test has started.
type run struct {
	*exec.Cmd
	t      *testing.T
	config *config
	stdin  *os.File
	stdout *os.File
	stderr bytes.Buffer
	events *os.File // what helpers write

	elsewhere string // a group where members are
}

// start starts a launcher whose server is a shell script.
func start(t *testing.T, script string, change func(*config)) *run {
	t.Helper()
	c := &config{Server: server{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: os.Environ()}}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &c.Server.NoFile) // it can't fail
	_ = unix.Getrlimit(unix.RLIMIT_LOCKS, &c.Server.Locks)   // as above
	c.Parent = bed.Group(t, "groups")
	if err := os.Mkdir(c.Parent+"/guards", 0o700); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, config: c, Cmd: exec.Command("/proc/self/exe")}
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.UID != 0 {
		r.becomeUser()
	}
	r.Env = append(os.Environ(), launcherEnv+"="+string(text))
	var stdin, stdout *os.File
	stdin, r.stdin = bed.Pipe(t)
	r.stdout, stdout = bed.Pipe(t)
	r.Stdin = stdin
	r.Stdout = stdout
	r.Stderr = &r.stderr
	r.WaitDelay = time.Millisecond // a server may have stderr
	if r.events, err = os.CreateTemp(t.TempDir(), "events"); err != nil {
		t.Fatal(err)
	}
	defer r.events.Close()
	r.ExtraFiles = []*os.File{r.events}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	_ = stdin.Close()
	_ = stdout.Close()
	return r
}

// becomeUser delegates the directory to a user. The launcher has to be in it: a process moves within what its user may write to.
func (r *run) becomeUser() {
	own := filepath.Join(r.config.Parent, "client")
	if err := os.Mkdir(own, 0o700); err != nil {
		r.t.Fatal(err)
	}
	for _, path := range []string{"", "cgroup.procs", "guards", "guards/cgroup.procs", "client", "client/cgroup.procs"} {
		if err := os.Chown(filepath.Join(r.config.Parent, path), r.config.UID, r.config.UID); err != nil {
			r.t.Fatal(err)
		}
	}
	f, err := os.Open(own)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = f.Close() })
	id := uint32(r.config.UID)
	r.SysProcAttr.CgroupFD = int(f.Fd())
	r.SysProcAttr.UseCgroupFD = true
	r.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	if r.config.Room > 0 { // counted per user namespace: in its own, without another run's processes
		all := []syscall.SysProcIDMap{{Size: 1 << 16}}
		r.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
		r.SysProcAttr.GidMappingsEnableSetgroups = true
		r.SysProcAttr.UidMappings = all
		r.SysProcAttr.GidMappings = all
	}
}

// line reads one from the server.
func (r *run) line() string {
	r.t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := r.stdout.Read(b)
		if err != nil || n == 0 {
			r.t.Fatalf("server's output: %q, %v; status %d, log %q; %s", line, err, r.status(), r.log(), r.stderr.String())
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

// status waits for the launcher.
func (r *run) status() int {
	err := r.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		r.t.Error(err)
	}
	if ws, ok := r.ProcessState.Sys().(interface{ Signaled() bool }); ok && ws.Signaled() {
		return -1
	}
	return r.ProcessState.ExitCode()
}

// wantNoServer is for a launcher that may be in a group beside the server's.
func (r *run) wantNoServer() {
	r.t.Helper()
	if !pace.Eventually(patience, func() bool {
		_, err := os.Stat(filepath.Join(r.config.Parent, "server"))
		return errors.Is(err, os.ErrNotExist)
	}) {
		r.t.Errorf("the server is left; log %q; %s", r.log(), r.stderr.String())
	}
}

// wantNothing is after every end: no process, no directory.
func (r *run) wantNothing() {
	r.t.Helper()
	if r.config.Parent == "" {
		return
	}
	var left string
	if !pace.Eventually(patience, func() bool {
		empty, err := bed.Empty(r.config.Parent)
		if empty && r.elsewhere != "" {
			empty, err = bed.Empty(r.elsewhere)
		}
		dirs, _ := filepath.Glob(r.config.Parent + "/server*")
		left = fmt.Sprint("empty: ", empty, err, ", directories: ", dirs)
		return empty && err == nil && len(dirs) == 0
	}) {
		r.t.Errorf("left: %s; log %q; %s", left, r.log(), r.stderr.String())
	}
}

func (r *run) log() string {
	text, _ := os.ReadFile(r.events.Name())
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ", ")
}

func (r *run) wantLog(want string) {
	r.t.Helper()
	if !pace.Eventually(patience, func() bool { return r.log() == want }) {
		r.t.Errorf("log: %q, want %q; %s", r.log(), want, r.stderr.String())
	}
}

func (r *run) wantStatus(want int) {
	r.t.Helper()
	if got := r.status(); got != want {
		r.t.Fatalf("status %d, want %d; log %q; %s", got, want, r.log(), r.stderr.String())
	}
}

// members are the processes of a cgroup below the parent of groups.
func (r *run) members(dir string) (pids []int) {
	text, _ := os.ReadFile(filepath.Join(r.config.Parent, dir, "cgroup.procs"))
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			r.t.Error(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// guard finds the guard by its comm.
func (r *run) guard() *os.Process {
	r.t.Helper()
	var found int
	if !pace.Eventually(patience, func() bool {
		for _, dir := range []string{"guards", "server"} {
			for _, pid := range r.members(dir) {
				comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				if string(comm) == "guard-test\n" {
					found = pid
					return true
				}
			}
		}
		return false
	}) {
		r.t.Fatalf("no guard; %s", r.stderr.String())
	}
	p, err := os.FindProcess(found)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *run) signal(p *os.Process, sig os.Signal) {
	r.t.Helper()
	if err := p.Signal(sig); err != nil {
		r.t.Error(err)
	}
}

// stopLauncher returns when each of its threads stands still: until then it could react.
func (r *run) stopLauncher() {
	r.t.Helper()
	r.signal(r.Process, unix.SIGSTOP)
	if err := unix.Waitid(unix.P_PID, r.Process.Pid, nil, unix.WSTOPPED, nil); err != nil {
		r.t.Error(err)
	}
}

const sleeper = "echo up; exec sleep 1000"

// Every way to end, with the log of the helpers.
func TestEnds(t *testing.T) {
	gone := -1
	for name, c := range map[string]struct {
		script string
		change func(*config)
		end    func(*run)
		status int
		log    string
	}{
		"exit":     {"echo up; exit 3", nil, func(*run) {}, 3, "nothing left, 0 guards replaced"},
		"signal":   {"echo up; kill -9 $$", nil, func(*run) {}, 137, "nothing left, 0 guards replaced"},
		"stdin":    {sleeper, nil, func(r *run) { _ = r.stdin.Close() }, 143, "helper 1: stdin-closed"},
		"EOF":      {"echo up; exec cat", func(c *config) { c.Forever = true }, func(r *run) { _ = r.stdin.Close() }, 0, "nothing left, 0 guards replaced"},
		"TERM":     {sleeper, nil, func(r *run) { r.signal(r.Process, unix.SIGTERM) }, 143, "nothing left, 0 guards replaced"},
		"deaf":     {"trap '' TERM; " + sleeper, nil, func(r *run) { r.signal(r.Process, unix.SIGTERM) }, 137, "helper 1: signal"},
		"launcher": {sleeper, nil, func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone, "helper 1: launcher-gone"},
		"guard": {sleeper, nil, func(r *run) {
			r.killGuard()
			_ = r.stdin.Close()
		}, 143, "helper of another guard: stdin-closed"},
		"guard, launcher": {sleeper, nil, func(r *run) {
			r.killGuard()
			r.signal(r.Process, unix.SIGKILL)
		}, gone, "helper of another guard: launcher-gone"},
		"guard, exit": {"trap 'exit 5' USR1; echo up; read line", nil, func(r *run) {
			r.killGuard()
			r.signal(r.Process, unix.SIGUSR1)
		}, 5, "nothing left, 1 guards replaced"},
		"request":       {sleeper, nil, func(r *run) { r.signal(r.guard(), unix.SIGWINCH) }, 143, "helper 1: stop-requested"},
		"TERM to guard": {"echo up; read line; exit 5", func(c *config) { c.Forever = true }, (*run).terminateGuard, 5, "nothing left, 0 guards replaced"},
		// The first helper looks for use, as one process is in another session: the shell waits until its end of
		// the pipe is closed.
		"left-overs": {"sleep 1000 & : $(setsid sh -c 'exec sleep 1000 >/dev/null' &); echo up; exit 4", nil, func(*run) {}, 4,
			"helper 2: main-exited"},
		"stopped launcher": {sleeper, nil, func(r *run) {
			r.stopLauncher()
			_ = r.stdin.Close()
		}, 143, "helper 1: stdin-closed"},
		"stopped launcher, request": {sleeper, nil, func(r *run) {
			r.stopLauncher()
			r.signal(r.guard(), unix.SIGWINCH)
		}, 143, "helper 1: stop-requested"},
		"frozen launcher":   {sleeper, nil, (*run).freezeLauncher, 143, "helper 1: stdin-closed"},
		"first helper dies": {sleeper, func(c *config) { c.Dies = 1 }, func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone, "helper 1: launcher-gone, helper 2: launcher-gone"},
		"helper dies":       {sleeper, func(c *config) { c.Dies = 1 }, func(r *run) { _ = r.stdin.Close() }, 143, "helper 1: stdin-closed, helper 2: stdin-closed"},
		"all helpers die": {sleeper, func(c *config) { c.Dies = 9 }, func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone,
			"helper 1: launcher-gone, helper 2: launcher-gone, helper 3: launcher-gone"},
		"helper hangs": {sleeper, func(c *config) { c.Hangs = true }, func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone,
			"helper 1: launcher-gone, helper 2: launcher-gone"},
		"no helper starts": {sleeper, func(c *config) { c.Program = "/etc/passwd" }, func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone, ""},
		"no helper starts, two members": {"setsid sleep 1000 & " + sleeper, func(c *config) { c.Program = "/etc/passwd" },
			func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone, ""},
		"no helper starts, stdin": {sleeper, func(c *config) { c.Program = "/etc/passwd" }, func(r *run) { _ = r.stdin.Close() }, gone, ""},
		"left the group, no helper": {"setsid sleep 1000 & echo up; exec sleep 1000", func(c *config) { c.Program = "/etc/passwd" }, func(r *run) {
			moveTo(r, "server", bed.Group(r.t, "elsewhere"))
			_ = r.stdin.Close()
		}, gone, ""},
		"stopped guard": {sleeper, nil, func(r *run) {
			r.signal(r.guard(), unix.SIGSTOP)
			r.signal(r.Process, unix.SIGKILL)
			r.signal(r.guard(), unix.SIGCONT) // as a sweep does
		}, gone, "helper 1: launcher-gone"},
		"stopped guard, TERM": {sleeper, nil, func(r *run) {
			r.signal(r.guard(), unix.SIGSTOP)
			r.signal(r.Process, unix.SIGTERM) // the launcher continues it
		}, 143, "nothing left, 0 guards replaced"},
		"no other guard": {"prlimit --pid $PPID --nproc=1:1; setsid sleep 1000 & " + sleeper, func(c *config) { c.UID = 4001 },
			func(r *run) { r.signal(r.guard(), unix.SIGKILL) }, gone, ""},
		"managed":        {sleeper, func(c *config) { c.Managed = true }, func(r *run) { _ = r.stdin.Close() }, 143, "helper 1: stdin-closed"},
		"tree":           {sleeper, func(c *config) { c.Parent = "" }, func(r *run) { _ = r.stdin.Close() }, 137, "helper 1: stdin-closed"},
		"tree, launcher": {sleeper, func(c *config) { c.Parent = "" }, func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone, "helper 1: launcher-gone"},
		"tree, no helper": {"setsid sleep 1000 & " + sleeper, func(c *config) { c.Parent, c.Program = "", "/etc/passwd" }, func(r *run) { _ = r.stdin.Close() },
			gone, ""},
		"clone3 is ENOSYS": {sleeper, func(c *config) { c.Refuses = uint32(unix.ENOSYS) }, func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone,
			"helper 1: launcher-gone"},
		"clone3 is EPERM": {"echo up; exit 3", func(c *config) { c.Refuses = uint32(unix.EPERM) }, func(*run) {}, 3, "nothing left, 0 guards replaced"},
		"user":            {"echo up; exit 3", func(c *config) { c.UID = 4001 }, func(*run) {}, 3, "nothing left, 0 guards replaced"},
		"user, launcher":  {sleeper, func(c *config) { c.UID = 4001 }, func(r *run) { r.signal(r.Process, unix.SIGKILL) }, gone, "helper 1: launcher-gone"},
		"no room, stdin": {"ulimit -p 30; sh -c 'while :; do sleep 1000 & done' 2>/dev/null; echo up; exec sleep 1000",
			func(c *config) { c.UID, c.Room = 4001, 30 }, func(r *run) { _ = r.stdin.Close() }, 143, "helper 1: stdin-closed"},
		"program deleted": {sleeper, func(c *config) { c.Program = copyOfProgram(t) }, func(r *run) {
			if err := os.Remove(r.config.Program); err != nil {
				r.t.Error(err)
			}
			r.signal(r.Process, unix.SIGKILL)
		}, gone, "helper 1: launcher-gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, c.script, c.change)
			if got := r.line(); got != "up" {
				t.Fatalf("server: %q", got)
			}
			c.end(r)
			r.wantStatus(c.status)
			if b := make([]byte, 1); r.config.Parent == "" { // every member has stdout
				if n, err := r.stdout.Read(b); n > 0 || err == nil {
					t.Error("output after the end")
				}
			}
			r.wantNothing()
			r.wantLog(c.log)
		})
	}
}

// killGuard returns when the launcher has forked another one.
func (r *run) killGuard() {
	r.t.Helper()
	first := r.guard()
	r.signal(first, unix.SIGKILL)
	if !pace.Eventually(patience, func() bool { return r.guard().Pid != first.Pid }) {
		r.t.Error("no other guard comes")
	}
}

// terminateGuard sends the guard what means nothing to it, before the server ends by itself.
func (r *run) terminateGuard() {
	for _, sig := range []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1} {
		r.signal(r.guard(), sig)
	}
	_ = r.stdin.Close()
}

// freezeLauncher closes stdin while the launcher is frozen with its client, and thaws it when nothing is left.
func (r *run) freezeLauncher() {
	dir := bed.Group(r.t, "client")
	for _, write := range [][2]string{{"cgroup.procs", fmt.Sprint(r.Process.Pid)}, {"cgroup.freeze", "1"}} {
		if err := bed.Write(filepath.Join(dir, write[0]), write[1]); err != nil {
			r.t.Error(err)
		}
	}
	_ = r.stdin.Close()
	r.wantNoServer()
	if err := bed.Write(filepath.Join(dir, "cgroup.freeze"), "0"); err != nil {
		r.t.Error(err)
	}
}

// moveTo moves all members below a directory to another one.
func moveTo(r *run, from, to string) {
	for _, pid := range r.members(from) {
		if err := bed.Write(filepath.Join(to, "cgroup.procs"), fmt.Sprint(pid)); err != nil {
			r.t.Error(err)
		}
	}
	r.elsewhere = to
}

func copyOfProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(file, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// prlimit(2) tells nothing of a process with the rights of another user or group.
func TestTagOfAnothersRights(t *testing.T) {
	const tag = uint64(tagMagic<<tagBits | 5)
	limited := []string{"prlimit", fmt.Sprintf("--locks=%d:", tag)}
	for name, c := range map[string]struct {
		command []string
		user    uint32
	}{
		"setgid program": {[]string{setgidSleep(t)}, 4001},
		"other user":     {[]string{"setpriv", "--reuid", "4002", "--regid", "4002", "--clear-groups", "sleep"}, 0}, // of root
	} {
		line := slices.Concat(limited, c.command, []string{"1000"})
		cmd := exec.Command(line[0], line[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		isSleep := func() bool {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid)) // it is there until it is waited for
			return string(comm) == "sleep\n"
		}
		if !pace.Eventually(patience, isSleep) {
			t.Errorf("%s: no sleep", name)
		}
		if pid := int32(cmd.Process.Pid); !isTagged(pid, tag) || isTagged(pid, tag+1) {
			t.Errorf("%s: %v, and with another tag %v", name, isTagged(pid, tag), isTagged(pid, tag+1))
		}
		_ = cmd.Process.Kill() // our child
		_ = cmd.Wait()         // it was killed
	}
}

// Without a descriptor for a look nobody can say that no member is left.
func TestUnseenMembers(t *testing.T) {
	own := bed.Group(t, "own")
	fd, err := unix.Open(own, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	search := tagSearch{tag: uint64(tagMagic<<tagBits | 6), procs: int32(fd)}
	if search.exists() {
		t.Error("there is a member")
	}
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it can't fail, as setting a lower one
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max})
	mayExist := search.exists()
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	if !mayExist {
		t.Error("it has not looked, and says that there is none")
	}
}

// setgidSleep is a program with the rights of another group.
func setgidSleep(t *testing.T) string {
	t.Helper()
	file := filepath.Join(escape.OpenDir(t), "sleep")
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = escape.WriteProgram(file, string(text))
	}
	if err == nil {
		err = os.Chown(file, 0, 4003)
	}
	if err == nil {
		err = os.Chmod(file, 0o755|os.ModeSetgid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A process that is on the way may be killed when it has forked a guard. Then the launcher forks another one.
func TestAGuardThatItsLauncherDoesNotKnow(t *testing.T) {
	r := start(t, "", func(c *config) { c.Strays = true })
	r.wantStatus(0)
	r.wantLog("the guard is known: true, the group is there: true")
	r.wantNothing()
}

// A watcher forks guards at a time. None of them is to keep another one from seeing the watcher's death.
func TestGuardsAtATime(t *testing.T) {
	r := start(t, "", func(c *config) { c.Twins = true })
	r.wantStatus(0)
	r.wantNothing()
}
