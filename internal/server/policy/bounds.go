// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// Bounds without a setting.
const (
	AdmitWithin     = 10 * time.Second       // for a start with --min-free: clients give up after 30 to 60 s
	AdmitEvery      = 100 * time.Millisecond // between two readings of the free memory
	IdleWindow      = 10 * time.Second       // without a client, with stdin held open by another
	ReclaimedWithin = 5 * time.Second        // added to graces after a reclaim
	IdleFreezeLeast = 2 * time.Minute        // clients wait up to 60 s for a call
	KillWithin      = time.Second            // for the kill, and all else of a stop but its graces
	RepeatAfter     = 50 * time.Millisecond  // systemd may send SIGTERM twice
	DoubtMost       = 5 * time.Second        // until an unclear group is an orphan
	ReactWithin     = 5 * time.Second        // for a guard that was asked for a stop, and for the status
	SettleAfter     = time.Second            // from a start to its tasks for later: others start, too
	EndsWithin      = 5 * time.Millisecond   // for a server that ends before a scope is worth asking for
	UnarmedAge      = 10 * time.Second       // before an unarmed group or an unclaimed session may go
	KeepEach        = 3 * time.Second        // between two looks for members that are kept
	ForgottenAfter  = 2 * time.Second        // before an empty scope is removed that systemd leaves
	ManagerWithin   = 8 * time.Second        // for the requests to a systemd about one server
	EngineWithin    = 20 * time.Second       // beyond the grace, for a container engine to end what it runs
)
