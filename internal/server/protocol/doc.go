// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package protocol has the terms that launcher, tool and journal share: policy, causes, configuration,
// names of directories and processes, and events.
package protocol
