// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// serverGroup is the server's cgroup as its launcher has it.
type serverGroup struct {
	page    *page.Page
	payload int32 // its directory, or -1 in a tree
	kills   int32 // cgroup.kill, or -1 in a tree
	buf     [512]byte
}

func (g *serverGroup) populated() bool { return g.payload >= 0 && populated(g.payload, &g.buf) }

// thawScope thaws the scope, with the guard in it: a person may have frozen that (systemctl(1), freeze).
func (g *serverGroup) thawScope() {
	if g.page.Order.Managed {
		writeFile(g.payload, scopeFreeze, '0')
	}
}

func (g *serverGroup) openKill() {
	if g.payload >= 0 {
		g.kills, _ = openAt(g.payload, killFile, unix.O_WRONLY)
	}
}

// kill does what members.kill does.
func (g *serverGroup) kill() bool { return writeChar(g.kills, '1') == 0 }

// remove returns false where something keeps the group.
func (g *serverGroup) remove() bool {
	d := directories{page: g.page}
	for dir := d.next(); dir != 0; dir = d.next() {
		const tries = 32 // 10 ms
		e := removeDirectory(g.page.FD.Parent, dir, tries)
		if e != 0 && e != syscall.ENOENT {
			return false
		}
	}
	return true
}

// directories goes through those of a page.
type directories struct {
	page   *page.Page
	offset int
}

// next is the next path, which ends with 0; it is 0 after the last one.
func (d *directories) next() uintptr {
	all := &d.page.Directories
	if d.offset >= len(all) || all[d.offset] == 0 {
		return 0
	}
	path := uintptr(unsafe.Pointer(&all[d.offset]))
	for d.offset < len(all) && all[d.offset] != 0 {
		d.offset++
	}
	d.offset++
	return path
}

// removeDirectory waits for the last process of a directory to leave: no event says that it has.
func removeDirectory(parent int32, path uintptr, tries int64) syscall.Errno {
	for try := int64(1); ; try++ {
		_, e := sys(unix.SYS_UNLINKAT, uintptr(parent), path, unix.AT_REMOVEDIR, 0, 0)
		if e != syscall.EBUSY || try == tries {
			return e
		}
		sleep(20e3 * try)
	}
}
