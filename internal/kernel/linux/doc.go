// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package linux is what this program asks of the kernel beside cgroups and processes: a wait for descriptors,
// memory files, and the ends of pipes.
//
// A Watch tells when the client has let go of a server's stdin or stdout, without holding either: a
// registration in an epoll set lives as long as the open file description does, not as long as the
// descriptor that it was made with. So the descriptor is registered, handed to the server, and closed here.
// Nothing is ever read or written.
//
// A memory file hands bytes to a process that is about to be started (memfd_create(2), Linux 3.17): it may be
// long, and no command line shows it. Other processes of the user can be given such a file to look at, by way
// of /proc/PID/fd.
package linux
