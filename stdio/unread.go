//go:build linux

package stdio

import (
	"golang.org/x/sys/unix"
)

// File identifies an open pipe or socket.
type File struct{ Dev, Ino uint64 }

// Identify returns what fd refers to, and whether it is a pipe, FIFO or socket: only
// those have another end that can be closed.
func Identify(fd int) (File, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return File{}, false
	}
	kind := st.Mode & unix.S_IFMT
	return File{Dev: uint64(st.Dev), Ino: st.Ino}, kind == unix.S_IFIFO || kind == unix.S_IFSOCK
}

// Unread tells whether input that the client wrote to f is still waiting for the
// process behind pidfd, which has f as its descriptor 0. Its descriptor is borrowed
// for the moment of one ioctl (pidfd_getfd, Linux 5.6): on a socket the Input of a
// Watch can't be told from the hang-up, and we hold no descriptor of our own. What
// can't be found out counts as read.
func Unread(pidfd int, f File) bool {
	fd, err := unix.PidfdGetfd(pidfd, 0, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if same, _ := Identify(fd); same != f {
		return false // it has closed or replaced its stdin
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err == nil && n > 0
}
