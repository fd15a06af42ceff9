// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// ErrClientExited ends a wait: no client is left that would use the server.
var ErrClientExited = errors.New("the client exited while the server waited for free memory")

// ShortError is the end of a wait without enough memory.
type ShortError struct {
	Free    Free
	MinFree uint64
	Within  time.Duration
	Largest []Use
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("%d bytes of memory are free, and min-free is %d", e.Free.Bytes, e.MinFree)
}

// Use is the memory of a running server.
type Use struct {
	ID, Name string
	Bytes    uint64
	IsSum    bool // over the members
}

// Refused reports whether an error is of a wait. Another place for the server would not help then.
func Refused(err error) bool {
	return errors.As(err, new(*ShortError)) || errors.Is(err, ErrClientExited)
}

// Wait is the wait of one start.
type Wait struct {
	MinFree       uint64
	OnClientDeath policy.ClientDeath
	Client        *client.Side
	Waits         func(Free) // called once if the start has to wait; or nil

	began time.Time // zero before it waits
}

// UntilFree waits until MinFree is free for a server in a group in above; see ReadFree. All calls together
// have policy.AdmitWithin.
//
// The kernel reports when memory becomes scarce (memory.events, PSI), and has no event for memory that
// becomes free. So the figures are read again each policy.AdmitEvery.
func (w *Wait) UntilFree(root, above *cgroup.Group) error {
	for {
		free, err := ReadFree(root, above)
		if err != nil || free.Bytes >= w.MinFree {
			return err
		}
		if w.began.IsZero() {
			w.began = time.Now()
			if w.Waits != nil {
				w.Waits(free)
			}
		}
		if time.Since(w.began) >= policy.AdmitWithin {
			return &ShortError{Free: free, MinFree: w.MinFree, Within: policy.AdmitWithin, Largest: largest()}
		}
		if !w.pause() {
			return ErrClientExited
		}
	}
}

// Waited is how long the start has waited until now; 0 if it had not to.
func (w *Wait) Waited() time.Duration {
	if w.began.IsZero() {
		return 0
	}
	return time.Since(w.began)
}

// pause returns false if no client is left. As with a running server, the death of the client is not its end
// while another process may hold stdin open.
func (w *Wait) pause() bool {
	pidfd := w.Client.PIDFD
	if w.OnClientDeath == policy.IgnoreClientDeath {
		pidfd = -1 // which is never ready
	}
	if !linux.AwaitWithin(pidfd, unix.POLLIN, policy.AdmitEvery) {
		return true
	}
	if w.OnClientDeath == policy.StopOnClientDeath || w.Client.Stdin.Fired() {
		return false
	}
	time.Sleep(policy.AdmitEvery) // the pidfd stays ready
	return true
}

// largestMost is how many servers an error names.
const largestMost = 3

// largest finds the servers of this user that have most memory.
func largest() []Use {
	servers, _ := fleet.ListOwn() // as far as they can be listed
	var uses []Use
	for _, s := range servers {
		used, err := s.Handle.Usage()
		s.Close()
		if err != nil { // it has ended meanwhile
			continue
		}
		memory, isSum := used.MemoryNow()
		if memory > 0 {
			uses = append(uses, Use{ID: s.Placed.ID, Name: s.Facts.Name, Bytes: memory, IsSum: isSum})
		}
	}
	slices.SortStableFunc(uses, func(a, b Use) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return uses[:min(len(uses), largestMost)]
}
