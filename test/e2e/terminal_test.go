// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/transparent"
)

func TestTerminalSignals(t *testing.T)    { onEachBackend(t, transparent.TerminalSignals) }
func TestTerminalJobControl(t *testing.T) { onEachBackend(t, transparent.JobControl) }
func TestTerminalFullScreen(t *testing.T) { onEachBackend(t, transparent.FullScreen) }
func TestTerminalKeyAtOnce(t *testing.T)  { onEachBackend(t, transparent.KeyAtOnce) }
