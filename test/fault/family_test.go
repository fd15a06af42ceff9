// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// process finds, or gets to know, the process of a thread that waits in a call.
func (w *watcher) process(tid uint32) (*process, error) {
	p := w.threads[tid]
	if p != nil && p.alive() {
		if p.executed && (p.role == stranger || p.role.isFork()) {
			w.meet(p, p.role.main())
		}
		return p, nil
	}
	pid, parent, err := family(tid)
	if err != nil {
		return nil, err
	}
	p = w.byPID(pid)
	if p == nil {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return nil, os.NewSyscallError("pidfd_open", err)
		}
		p = &process{pid: pid, pidfd: fd}
		w.all = append(w.all, p)
		whose := stranger
		if q := w.byPID(parent); q != nil {
			whose = q.role.main()
		}
		w.meet(p, whose)
	}
	w.threads[tid] = p
	return p, nil
}

func (w *watcher) byPID(pid int) *process {
	i := slices.IndexFunc(w.all, func(p *process) bool { return p.pid == pid && p.alive() })
	if i < 0 {
		return nil
	}
	return w.all[i]
}

func (w *watcher) meet(p *process, parent role) {
	p.role = w.identify(p, parent)
	if p.role != stranger && !p.role.isFork() {
		w.guards[p.role] = p
		p.executed = false
	}
}

func (w *watcher) alive() []role {
	var all []role
	for r, p := range w.guards {
		if p.alive() {
			all = append(all, r)
		}
	}
	slices.Sort(all)
	return all
}

// family reads the process that a thread belongs to, and its parent.
func family(tid uint32) (pid, parent int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "Tgid: %d", &pid)
		if n, _ := fmt.Sscanf(line, "PPid: %d", &parent); n == 1 {
			return pid, parent, nil
		}
	}
	return 0, 0, fmt.Errorf("no parent in the status of %d", tid)
}
