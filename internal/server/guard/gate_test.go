// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/test/escape"
)

// The guard of a gateway keeps four descriptors of each server, and as many servers as its hard limit allows:
// of the next one it says that it can't. It closes all that it drops.
func TestGatewayServers(t *testing.T) {
	for name, c := range map[string]struct {
		servers int
		all     bool // are kept
		files   unix.Rlimit
	}{
		"beyond the soft limit": {servers: 700, all: true, files: unix.Rlimit{Cur: 64, Max: 4096}},
		"beyond the hard limit": {servers: 100, files: unix.Rlimit{Cur: 64, Max: 128}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(&config{Gateway: true, Servers: c.servers, Files: c.files})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), launcherEnv+"="+string(text))
			out, err := cmd.CombinedOutput()
			if want := fmt.Sprintf("small: true\nkept all: %t\n", c.all); err != nil || string(out) != want {
				t.Errorf("it says %q (%v), want %q", out, err, want)
			}
		})
	}
}

// The guard of a gateway that can't poll ends, instead of taking a processor.
func TestGatewayGuardWithoutFiles(t *testing.T) {
	text, err := json.Marshal(&config{Gateway: true, Starves: true})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), launcherEnv+"="+string(text))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "it has ended\n" {
		t.Errorf("it says %q (%v)", out, err)
	}
}

// writableOf is how much private memory a process could write to, without its stack. That of a Go runtime is more than 80 MB.
func writableOf(pid int) (size uint64) {
	memory, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	check(err)
	for line := range strings.Lines(string(memory)) {
		if strings.Contains(line, " rw-p ") && !strings.HasSuffix(line, "[stack]\n") {
			var from, to uint64
			_, _ = fmt.Sscanf(line, "%x-%x", &from, &to)
			size += to - from
		}
	}
	return size
}

// keepServers says whether the guard keeps all servers, and everything that is wrong.
func (c *config) keepServers() int {
	// A test binary has a larger heap than a gateway. It is not to grow between leaveOut and the fork, which would copy that part.
	runtime.KeepAlive(make([]byte, 8<<20))
	on, errno := page.New()
	if errno != 0 {
		check(errno)
	}
	if c.Starves {
		starveGuard(on)
		return 0
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	check(err)
	on.FD.Client = int32(self)
	check(on.SetConfig([]byte("the servers are behind this")))
	check(unix.Setrlimit(unix.RLIMIT_NOFILE, &c.Files))
	gate := Gate{Wanted: true, Start: true}
	g, err := Fork(on, &Options{Name: page.GatewayGuard, Argv: []string{"none"}, Env: os.Environ(), Gate: gate})
	check(err)
	fmt.Println("small:", writableOf(int(on.ByGuard.GuardPID)) < 8<<20) // the runtime may map an arena of 4 MB after leaveOut has read the list
	one := page.Kept{Payload: on.FD.Client, Memory: on.Memory, Stdin: on.Memory, Stdout: on.Memory}
	check(g.Keep(0, one))
	check(g.Drop(0))
	before := filesOf(g)
	n := 0
	for ; n < c.Servers && err == nil; n++ {
		one.Stdin = on.Memory
		one.Stdout = on.Memory
		if n%3 == 1 {
			one.Stdin = -1
		}
		if n%3 == 2 {
			one.Stdout = -1
		}
		err = g.Keep(n, one)
	}
	if err != nil {
		n--
	}
	if err != nil && !errors.Is(err, unix.EMFILE) {
		check(err)
	}
	fmt.Println("kept all:", n == c.Servers)
	all, err := on.Servers()
	check(err)
	descriptors := 0
	for number, k := range all {
		has := [2]bool{k.Stdin >= 0, k.Stdout >= 0}
		if want := [2]bool{number%3 != 1, number%3 != 2}; k.Payload == 0 || has != want {
			fmt.Printf("server %d: %+v, want stdin and stdout %v\n", number, k, want)
		}
		for _, fd := range []int32{k.Payload, k.Memory, k.Stdin, k.Stdout} {
			if fd >= 0 {
				descriptors++
			}
		}
	}
	if now := filesOf(g); len(all) != n || now != before+descriptors {
		fmt.Printf("it has %d servers, and %d descriptors more than before, want %d\n", len(all), now-before, descriptors)
	}
	for number := range n {
		check(g.Drop(number))
	}
	if now := filesOf(g); now != before {
		fmt.Printf("it has %d descriptors without servers, and had %d\n", now, before)
	}
	check(g.Keep(n+5, one)) // and leaves a hole
	all, err = on.Servers()
	check(err)
	if len(all) != n+6 || all[n].Payload != 0 || all[n+5].Payload == 0 {
		fmt.Printf("after the number %d it has %d servers\n", n+5, len(all))
	}
	check(on.ForgetServers())
	if all, err = on.Servers(); len(all) > 0 || err != nil {
		fmt.Printf("%d servers are not forgotten (%v)\n", len(all), err)
	}
	check(unix.PidfdSendSignal(g.PIDFD, unix.SIGKILL, nil, 0))
	if err := g.Keep(0, one); !errors.Is(err, unix.ESRCH) {
		fmt.Printf("a dead guard says %v\n", err)
	}
	return 0
}

// starveGuard lowers the limit of a guard that waits for events.
func starveGuard(on *page.Page) {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	check(err)
	gate := Gate{Wanted: true}
	g, err := Fork(on, &Options{Name: page.GatewayGuard, Argv: []string{"none"}, Gate: gate})
	check(err)
	if e := g.Go(self); e != 0 {
		check(e)
	}
	for on.Gateway.Listener < 0 {
		time.Sleep(time.Millisecond)
	}
	check(unix.Prlimit(int(on.ByGuard.GuardPID), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil))
	check(unix.PidfdSendSignal(g.PIDFD, unix.SIGUSR1, nil, 0)) // an event
	for !endedWithin(int32(g.PIDFD), 1e8) {
	}
	fmt.Println("it has ended")
}

// filesOf is how many descriptors the guard has.
func filesOf(g *page.Guard) int {
	files, err := escape.OpenFiles(int(g.Page.ByGuard.GuardPID))
	check(err)
	return len(files)
}
