// SPDX-License-Identifier: Apache-2.0

package idle

import "time"

// Traffic counts the bytes that the members have read and written, of files too. The counts of a member go
// with it. So they are comparable only while Members, which depends on all of them, is the same.
type Traffic struct {
	Read, Written int64
	Members       uint64
}

// Sample is what a server has done since its start, at one check of an idle timeout.
type Sample struct {
	CPU      time.Duration
	CPUKnown bool
	Traffic  Traffic
	Unread   bool // it has not read all input
}

// Timeout is how far the check of an idle timeout has come.
type Timeout struct {
	Due       time.Time // of the next check
	CPU       time.Duration
	Traffic   Traffic
	CallSince time.Time // when the server had read a message, and has written none since; zero for never
}

// callMost is how long a server may be in a call: a notification has no answer, and a start reads files.
const callMost = time.Hour

// timeoutCPU is more than no work.
const timeoutCPU = 20 * time.Millisecond

// IsOver reports whether the server has done nothing since the last check. Otherwise the next one is due
// after that time.
//
// A call may take long, and need no processor. So a message that was read is use, and for as long as nothing
// is written after it the server is in a call. A member that has ended may have read one, or hide that by its
// own bytes. Of messages that were read between the same two checks the last one may be unanswered: that is
// not seen.
func (t *Timeout) IsOver(s Sample, after time.Duration, now time.Time) bool {
	before := t.Traffic
	t.Traffic = s.Traffic
	hasRead := s.Traffic.Read-before.Read >= message || s.Traffic.Members != before.Members
	hasWritten := s.Traffic.Written-before.Written >= message
	switch {
	case hasWritten:
		t.CallSince = time.Time{}
	case hasRead:
		t.CallSince = now
	}
	isInCall := !t.CallSince.IsZero() && now.Sub(t.CallSince) < callMost
	hasWorked := !s.CPUKnown || s.CPU-t.CPU >= timeoutCPU
	if s.CPUKnown {
		t.CPU = s.CPU
	}
	t.Due = now.Add(after)
	return !hasWorked && !s.Unread && !hasRead && !isInCall
}
