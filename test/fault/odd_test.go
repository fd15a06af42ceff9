// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// killAll kills guards at a time: stopped first, none can act on another's end.
func (w *watcher) killAll(roles []role) {
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
		for _, r := range roles {
			if p := w.guards[r]; p != nil {
				p.signal(sig)
			}
		}
	}
	for _, r := range roles {
		if p := w.guards[r]; p != nil && !p.ended() {
			w.odd = append(w.odd, fmt.Sprintf("the %s outlives SIGKILL", r))
		}
	}
}

// suspect notes what tells that the Go runtime has given up, and what is not the supervisor's
// to say: its stderr is the server's.
func (w *watcher) suspect(n notification, p *process, c call) {
	switch {
	case c.unknown():
		w.odd = append(w.odd, fmt.Sprintf("%s makes %s, which is in no table here", p.role, c.name))
	case n.NR == unix.SYS_EXIT_GROUP && n.Args[0] == 2:
		w.odd = append(w.odd, fmt.Sprintf("%s exits with 2, as the Go runtime does", p.role))
	case n.NR == unix.SYS_WRITE && n.Args[0] == 2 && p.role != launcher:
		w.odd = append(w.odd, fmt.Sprintf("%s says %q on stderr", p.role, memory(n.TID, n.Args[1], int(n.Args[2]))))
	}
}

// memory reads a thread's.
func memory(tid uint32, at uint64, size int) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, min(size, 400))
	n, _ := f.ReadAt(b, int64(at)) // as much as is mapped
	return b[:n]
}
