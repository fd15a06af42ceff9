//go:build linux

package freeze

import (
	"errors"
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
// again until populated is 0. After within it returns who is still there.
func Kill(g *cgroup.Group, within time.Duration) ([]Stuck, error) {
	events, err := g.Events()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil, nil // removed, so it had no members
	}
	if err != nil {
		return nil, err
	}
	defer events.Close()
	deadline := time.Now().Add(within)
	for {
		if g.Kill() == nil {
			if _, ok, _ := events.Wait(time.Now().Add(killRound), -1, empty); ok {
				return nil, nil
			}
		}
		_, signalErr := Signal(g, unix.SIGKILL)
		_, ok, err := events.Wait(time.Now().Add(killRound), -1, empty)
		if ok || err != nil {
			return nil, err
		}
		if time.Now().After(deadline) {
			return stuck(g), signalErr
		}
	}
}

func empty(s cgroup.State) bool { return !s.Populated }

func stuck(g *cgroup.Group) []Stuck {
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
