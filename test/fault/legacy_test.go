// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package fault

// There are none.
var (
	legacyLeftOut []uint32
	legacyCalls   map[uint32]call
)
