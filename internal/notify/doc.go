// SPDX-License-Identifier: Apache-2.0

// Package notify holds a program, and all that it starts, at each execve until somebody has
// looked at it (seccomp user notification, Linux 5.5), and once more when the new program
// begins: a parent waits for the end of the execve, so only after it can a program be held
// without its parent.
//
// A filter stays with a process for ever, and when nobody holds its listener any more each
// notified call fails with ENOSYS. So requests are received into memory that a second process
// shares: whoever takes over answers what the first one has received and not answered. The
// package knows nothing of gateways, groups or servers, and only ever lets a call go on: what
// a process executes can change between the look and the call, so this is no place for a
// refusal.
package notify
