// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import "golang.org/x/sys/unix"

// vforkFlags make a child that borrows the address space until it executes or exits:
// it costs half of what a copy does.
const vforkFlags = unix.CLONE_VM | unix.CLONE_VFORK

// vfork makes the system call trap, clone or clone3 with vforkFlags. Its caller's
// frame is shared by parent and child, so in the child the caller must not return.
//
//go:noescape
func vfork(trap, a1, a2 uintptr) (pid, errno uintptr)
