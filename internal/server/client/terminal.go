// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Terminal is an O_PATH descriptor of the terminal that a server has as its stdin, or -1. Such a descriptor
// does not keep the terminal open: its other side sees when the members have closed it.
type Terminal int

// TerminalFacts describe a terminal.
type TerminalFacts struct {
	File   protocol.File
	Device uint64
	// Read and Written are when it was, in seconds.
	Read, Written int64
}

// openTerminal returns -1 for a descriptor of another kind of file, and of a terminal without a device of its
// own, as /dev/tty.
func openTerminal(stdin int) (Terminal, error) {
	var st unix.Stat_t
	_, refused := unix.IoctlGetTermios(stdin, unix.TCGETS)
	if refused != nil || unix.Fstat(stdin, &st) != nil || unix.Major(st.Rdev) == alternateTTY {
		return -1, nil
	}
	fd, err := unix.Open(proc.DescriptorPath(os.Getpid(), stdin), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the terminal: %w", err)
	}
	return Terminal(fd), nil
}

// alternateTTY is TTYAUX_MAJOR: /dev/tty, /dev/console and /dev/ptmx.
const alternateTTY = 5

// Facts reads the facts of the terminal as they are now.
func (t Terminal) Facts() (f TerminalFacts, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(t), &st); err != nil {
		return f, fmt.Errorf("examine the terminal: %w", err)
	}
	f.File = protocol.File{Dev: st.Dev, Ino: st.Ino}
	f.Device = st.Rdev
	f.Read = st.Atim.Sec
	f.Written = st.Mtim.Sec
	return f, nil
}

// IsRaw reports whether each key is input: neither do keys wait for Enter, nor does the terminal make signals
// of some. A frozen program does not get a signal, and would not stop at ^Z. The terminal can be another
// user's.
func (t Terminal) IsRaw() (raw bool, err error) {
	const how = unix.O_RDONLY | unix.O_NOCTTY | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(proc.DescriptorPath(os.Getpid(), int(t)), how, 0)
	if err != nil {
		return false, fmt.Errorf("open the terminal: %w", err)
	}
	defer unix.Close(fd)
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return false, fmt.Errorf("examine the terminal: %w", err)
	}
	return mode.Lflag&(unix.ICANON|unix.ISIG) == 0, nil
}
