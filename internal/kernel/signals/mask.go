// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import "golang.org/x/sys/unix"

// Mask is the set of signals that are blocked in the calling thread: signal n is bit n-1.
func Mask() uint64 {
	var set unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, nil, &set) // it can't fail
	return set.Val[0]
}
