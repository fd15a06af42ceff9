// SPDX-License-Identifier: Apache-2.0

// Package notify holds a process, and all that it starts, at each execve until its listener answers (seccomp
// user notification), or where its memory can't be read then, when the new program begins.
//
// A filter stays with a process for ever, and without a listener each notified call fails with ENOSYS. So
// requests are received into memory that a second process shares, which answers the rest of the first one.
// The package knows nothing of gateways, groups or servers. A program can change between the look and the
// call, so a refusal is no protection against one that attacks: Refuse is for what could not be contained.
package notify
