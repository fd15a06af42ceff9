//go:build linux

package freeze

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/proc"
)

// Stuck is a member that SIGKILL did not end in time: it is in uninterruptible
// sleep, e.g. on a dead NFS server.
type Stuck struct {
	PID   int
	Name  string
	Wchan string
}

// killRound is how long one round of killing may wait for populated 0 before the
// members are listed and killed again.
const killRound = 20 * time.Millisecond

// Kill kills every member of the subtree and waits until none is left. cgroup.kill
// (Linux 5.14) gets all at once, whatever they fork meanwhile, but not a process
// whose first thread has exited; the SIGKILL by pidfd to each listed member gets
// that, and everyone where there is no cgroup.kill. So both are done, again and
// again until populated is 0. It returns who is still there when their number has not
// become less for that long: a slow machine gets the time that it takes.
func Kill(g Target, within time.Duration) ([]Stuck, error) {
	deadline := time.Now().Add(within)
	last := -1
	for {
		if g.Kill() == nil {
			if _, ok, _ := g.Await(time.Now().Add(killRound), -1, empty); ok {
				return nil, nil
			}
		}
		reached, signalErr := Signal(g, unix.SIGKILL)
		if last < 0 {
			last = len(reached)
		}
		_, ok, err := g.Await(time.Now().Add(killRound), -1, empty)
		if ok || err != nil {
			return nil, err
		}
		if time.Now().Before(deadline) {
			continue
		}
		left := stuck(g)
		if len(left) >= last {
			return left, signalErr
		}
		last, deadline = len(left), time.Now().Add(within)
	}
}

func empty(s cgroup.State) bool { return !s.Populated }

func stuck(g Target) []Stuck {
	pids, _ := g.Members() // a partial list is better than none
	var left []Stuck
	for _, pid := range pids {
		st, err := proc.ReadStat(pid)
		if err != nil {
			continue // it has gone after all
		}
		left = append(left, Stuck{PID: pid, Name: st.Comm, Wchan: proc.Wchan(pid)})
	}
	return left
}
