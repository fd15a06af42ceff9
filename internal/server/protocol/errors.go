// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import "errors"

// ErrGuard marks that the guard could not be started: no other backend would help.
var ErrGuard = errors.New("start the guard")
