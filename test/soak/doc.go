// SPDX-License-Identifier: Apache-2.0

// Package soak runs servers by the thousand to an end drawn at random, several names at a
// time, and demands that afterwards the host is as it was before: processes, groups,
// descriptors. Every exit status on the way is foretold.
//
// What is drawn follows from the seed, the lane and the number of the cycle alone. So one
// cycle can be had again: MCPSCOPE_SOAK_SEED=N go test -run 'TestSoak$/cycles/name-03/^17$'.
//
// Like escape, whose parts it is made of, the package knows the product from outside alone.
package soak

import "time"

// patience is longer than escape's: sixteen lanes wait for each other.
const patience = time.Minute
