// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import "errors"

// ErrUnheard: whether it was killed or failed, it could not say so.
var ErrUnheard = errors.New("the supervisor ended before it could say that the server runs")

// ErrSpawn marks that the supervisor could not be started.
var ErrSpawn = errors.New("start the supervisor")
