// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/test/bed"
)

// A launcher without a guard stops a server in these steps, and for these reasons, as a brain does.
func TestStopWithoutAGuard(t *testing.T) {
	const second = int64(1e9)
	const forever = -1
	signal := func(at int64) func(*page.Page, *clientEnds) {
		return func(on *page.Page, _ *clientEnds) { on.AddSignal(page.Signal{At: at, Number: 15}) }
	}
	hangUp := func(_ *page.Page, client *clientEnds) { client.hungUpAt = second }
	dies := func(_ *page.Page, client *clientEnds) { client.isDead = true }
	mainExits := func(on *page.Page, _ *clientEnds) { on.ByLauncher.EndLeft = page.LeftWaiting }
	type event struct {
		at int64
		do func(*page.Page, *clientEnds)
	}
	for name, c := range map[string]struct {
		eofGrace            int64
		events              []event
		terminated, stopped int64 // 0 for never
	}{
		"nothing":                         {2 * second, nil, 0, 0},
		"hang-up":                         {2 * second, []event{{second, hangUp}}, 3 * second, 6 * second},
		"an endless grace":                {forever, []event{{second, hangUp}}, 0, 0},
		"and then the client dies":        {forever, []event{{second, hangUp}, {4 * second, dies}}, 4 * second, 7 * second},
		"and then the main process exits": {forever, []event{{second, hangUp}, {4 * second, mainExits}}, 4 * second, 7 * second},
		"and then a signal":               {forever, []event{{second, hangUp}, {4 * second, signal(4 * second)}}, 0, 7 * second},
		"the client dies":                 {2 * second, []event{{second, dies}}, second, 4 * second},
		"a signal":                        {2 * second, []event{{second, signal(second)}}, 0, 4 * second},
		"the same at once":                {2 * second, []event{{second, signal(second)}, {second, signal(second + 1e6)}}, 0, 4 * second},
		"the same later":                  {2 * second, []event{{second, signal(second)}, {2 * second, signal(2 * second)}}, 0, 2 * second},
	} {
		on := &page.Page{}
		on.Order.EOFGrace = c.eofGrace
		on.Order.TermGrace = 3 * second
		client := clientEnds{}
		state := decide.State{}
		times := decide.Times{EOFGrace: on.Order.EOFGrace, TermGrace: on.Order.TermGrace}
		var terminated, stopped int64
		for at := second / 2; at < 20*second && stopped == 0; at += second / 100 {
			for _, e := range c.events {
				if e.at >= at && e.at < at+second/100 {
					e.do(on, &client)
				}
			}
			facts := factsAlone(on, client, at)
			for action := decide.Step(&state, &facts, &times); action != decide.Wait && stopped == 0; action = decide.Step(&state, &facts, &times) {
				switch {
				case action == decide.Ask && !facts.Signalled: // otherwise the main process has got the client's
					terminated = at
				case action == decide.Kill:
					stopped = at
				}
			}
		}
		const late = second / 10 // steps that follow each other
		if terminated < c.terminated || terminated > c.terminated+late || stopped < c.stopped || stopped > c.stopped+late {
			t.Errorf("%s: SIGTERM at %d, SIGKILL at %d, want %d and %d", name, terminated, stopped, c.terminated, c.stopped)
		}
	}
}

const limitedEnv = "GUARD_LIMITED"

// A server can lower its launcher's RLIMIT_NOFILE as soon as it runs, before its launcher has begun to wait. A launcher
// that has no guard either ends it all the same, with an orphan that ignores SIGTERM.
func TestServerThatTakesDescriptorsAtOnce(t *testing.T) {
	for _, backend := range []string{"group", "tree"} {
		dir := bed.Group(t, backend)
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), limitedEnv+"="+backend)
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.ExtraFiles = []*os.File{f}
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v; %s", backend, err, text)
		}
		empty, err := bed.Empty(dir)
		if err != nil || !empty {
			t.Errorf("%s: members are left (%v)", backend, err)
		}
	}
}

// endLimited is a launcher without a guard. Descriptor 3 is the directory of its server.
func endLimited(backend string) int {
	runtime.LockOSThread() // the server's processes are this thread's children
	on, errno := page.New()
	if errno != 0 {
		check(errno)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(err)
	l := &Launcher{}
	l.attach(on)
	l.keeper.guard.Sock = ends[0]
	if backend == "group" {
		l.group.payload = 3
	}
	if errno := l.arm(); errno != 0 {
		check(errno)
	}
	main := startIn(3, "trap '' TERM; sleep 1000 & echo; exec sleep 1000")
	check(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{}))
	l.begin(int32(main), 0)
	if backend == "group" && !l.group.kill() {
		check(errors.New("the launcher can't kill the group"))
	}
	on.ByLauncher.EndLeft = page.LeftWaiting // it has to end the rest, without a grace
	for try := 0; try < 100 && !on.ByLauncher.Childless; try++ {
		l.endAlone()
		sleep(10e6)
	}
	if !on.ByLauncher.Childless {
		check(fmt.Errorf("left after SIGKILL: process %d, or an orphan of it", main))
	}
	return 0
}

// startIn starts a script in a cgroup, and returns when that has written a line.
func startIn(dir int, script string) (pid int) {
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: dir}
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	_, err = out.Read(make([]byte, 1))
	check(err)
	return cmd.Process.Pid
}
