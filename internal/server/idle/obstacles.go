// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// tie is why the open files of a member forbid a freeze, "" if they do not: another process may wait for it.
func tie(pid int, members []int) (why string) {
	locks := heldLocks{}
	err := proc.EachDescriptor(pid, func(_ int, link string) bool {
		held := holdingOf(link)
		why = held.kind
		if why == tcpSocket && isNpm(pid, members) {
			why = nothingHeld
		}
		if len(held.locks) > 0 {
			locks[held.path] = append(locks[held.path], held.locks...)
		}
		return why == nothingHeld
	})
	switch {
	case err != nil:
		return unexamined
	case why == nothingHeld && locks.mayBeAwaited():
		return lock
	}
	return why
}

// holding is an open file that another process may wait for.
type holding struct {
	kind      string // one of these words, or another reason
	inode     uint64 // of a TCP socket
	path      string
	locks     []fileLock
	lockLines string // the same, as the kernel shows them
}

const (
	nothingHeld = ""
	tcpSocket   = "it has a TCP socket"
	lock        = "it holds a lock on a file"
	traces      = "it traces a process"
)

func holdingOf(link string) holding {
	target, _ := os.Readlink(link) // none, if it was closed
	if inode, isSocket := strings.CutPrefix(target, "socket:["); isSocket {
		h := holding{kind: socketObstacle(link)}
		h.inode, _ = strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64) // it is a number
		return h
	}
	if target == "/dev/fuse" {
		return holding{kind: "it serves a file system"}
	}
	h := holding{path: target}
	h.lockLines, h.locks = readLocks(link)
	return h
}

// socketObstacle is why a socket forbids a freeze: a peer on a network would wait for an answer, and may give
// up. The kernel's tables would say more, and take 10 ms for each process. The attribute of another file can
// be a request to a file system, which may hang.
func socketObstacle(link string) string {
	protocol := [16]byte{}
	n, err := unix.Getxattr(link, "system.sockprotoname", protocol[:])
	if err != nil {
		return unexamined
	}
	name := string(bytes.TrimRight(protocol[:n], "\x00"))
	for _, network := range []string{"TCP", "UDP", "VSOCK"} {
		if strings.Contains(name, network) {
			return "it has a " + network + " socket"
		}
	}
	return nothingHeld
}

// traceOthers reports whether a process outside of these is traced by one of them: at its next event it would
// wait for the tracer.
func traceOthers(pids []int) (found bool) {
	_ = proc.Each(func(pid int) bool { // none, if they can't be listed
		st, err := proc.ReadStatus(pid)
		if err != nil || st.Tracer == 0 || slices.Contains(pids, pid) {
			return true
		}
		tracer, err := proc.ReadStatus(st.Tracer)
		found = err == nil && slices.Contains(pids, tracer.Tgid)
		return !found
	})
	return found
}
