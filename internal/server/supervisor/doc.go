// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package supervisor is the life of the process that parents a server's main process, owns its group and
// ends it. It knows nothing of the launcher but the other end of a socket and a pidfd.
package supervisor
