// SPDX-License-Identifier: Apache-2.0

package fault

import "golang.org/x/sys/unix"

// Calls that newer architectures do without.
var (
	legacyLeftOut = []uint32{unix.SYS_ARCH_PRCTL, unix.SYS_GETPGRP, unix.SYS_TIME}
	legacyCalls   = map[uint32]call{
		unix.SYS_OPEN:       {"open", opening, 0},
		unix.SYS_STAT:       {"stat", looking, 0},
		unix.SYS_LSTAT:      {"lstat", looking, 0},
		unix.SYS_ACCESS:     {"access", looking, 0},
		unix.SYS_READLINK:   {"readlink", looking, 0},
		unix.SYS_POLL:       {"poll", waiting, none},
		unix.SYS_EPOLL_WAIT: {"epoll_wait", errnos{unix.EINTR}, none},
		unix.SYS_VFORK:      {"vfork", forking, none},
		unix.SYS_DUP2:       {"dup2", errnos{unix.EINTR, unix.EBUSY}, none},
		unix.SYS_PIPE:       {"pipe", making, none},
		unix.SYS_UNLINK:     {"unlink", changing, 0},
	}
)
