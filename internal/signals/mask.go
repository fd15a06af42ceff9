// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mask is the set of signals that are blocked in the calling thread.
func Mask() uint64 {
	var set unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, nil, &set) // it can't fail
	const bits = int(unsafe.Sizeof(set.Val[0])) * 8    // 32 or 64, as the processor has it
	var mask uint64
	for i := range 64 / bits {
		mask |= uint64(set.Val[i]) << (i * bits)
	}
	return mask
}
