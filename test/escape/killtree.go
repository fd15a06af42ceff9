// SPDX-License-Identifier: Apache-2.0

package escape

import "golang.org/x/sys/unix"

// KillTree does what VS Code and the C# SDK do: stop the process and all that
// descends from it by parent pid, until no new one shows, then kill them.
func KillTree(root *Process) {
	tree := map[int]*Process{root.PID: root}
	root.Signal(unix.SIGSTOP)
	for grown := true; grown; {
		grown = false
		for pid, parent := range Parents() {
			if tree[pid] != nil || tree[parent] == nil {
				continue
			}
			if p := openChild(pid, tree); p != nil {
				defer p.Close()
				p.Signal(unix.SIGSTOP)
				tree[pid] = p
				grown = true
			}
		}
	}
	for _, p := range tree {
		p.Signal(unix.SIGKILL)
	}
}

// openChild makes sure that the pid is still that of a child: with thousands of
// forks a second it may be another process by now. The parent that was read is the
// right one if the opened process is still alive afterwards.
func openChild(pid int, tree map[int]*Process) *Process {
	p, err := OpenProcess(pid)
	if err != nil {
		return nil
	}
	parent, err := ParentOf(pid)
	if err != nil || tree[parent] == nil || p.Ended(0) {
		p.Close()
		return nil
	}
	return p
}
