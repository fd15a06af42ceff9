// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import "golang.org/x/sys/unix"

// PIDNamespace is the inode number of ours, 0 if that can't be read.
func PIDNamespace() uint64 { return Namespace("pid") }

// Namespace is the inode number of one of ours, 0 if that can't be read.
func Namespace(kind string) uint64 {
	var ns unix.Stat_t
	if unix.Stat("/proc/self/ns/"+kind, &ns) != nil {
		return 0
	}
	return ns.Ino
}
