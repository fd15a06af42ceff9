// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package page

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/decide"
)

// Why a server ends is what has happened first. A request on the page has no time.
func TestFirstCause(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Page)
		want   Cause
	}{
		"nothing is known": {func(*Page) {}, byMainExit},
		"the main process": {func(p *Page) { p.ByLauncher.ExitedAt = 2; p.ByGuard.Happened[StdinClosed] = 3 }, byMainExit},
		"the client":       {func(p *Page) { p.ByLauncher.ExitedAt = 2; p.ByGuard.Happened[StdinClosed] = 1 }, byStdin},
		"the launcher":     {func(p *Page) { p.ByLauncher.ExitedAt = 1; p.ByGuard.Happened[LauncherDied] = 2 }, byLauncher},
		"a starter": {func(p *Page) {
			p.ByLauncher.ExitedAt = 1
			p.ByGuard.Stop.Starter = true
			p.ByGuard.Happened[StdoutClosed] = 2
		}, byStdout},
		"a signal":  {func(p *Page) { p.AddSignal(Signal{At: 1, Number: 15}); p.ByLauncher.ExitedAt = 2 }, BySignal},
		"a request": {func(p *Page) { p.ByOthers.Stop = true }, ByRequest},
	} {
		p := &Page{}
		c.change(p)
		if got := p.FirstCause(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Who holds stdin counts only while that is open, the client is dead, and the server may run.
func TestSeeksHolder(t *testing.T) {
	for name, c := range map[string]struct {
		change           func(*Page)
		seeks, abandoned bool
	}{
		"in doubt":          {func(*Page) {}, true, false},
		"a client lives":    {func(p *Page) { p.ByGuard.Happened[ClientDied] = 0 }, false, false},
		"stdin has hung up": {func(p *Page) { p.ByGuard.Happened[StdinClosed] = 1 }, false, true},
		"stdin is a file":   {func(p *Page) { p.Started.Side.Conveyed = false }, false, true},
		"nobody holds it":   {func(p *Page) { p.ByHelper.Holder = NoHolder }, false, true},
		"in a grace":        {func(p *Page) { p.ByGuard.Stop.State.Phase = decide.Grace }, false, false},
		"in an endless one": {func(p *Page) {
			p.ByGuard.Stop.State.Phase = decide.Grace
			p.Order.EOFGrace = -1
		}, true, false},
	} {
		p := &Page{}
		p.ByGuard.Happened[ClientDied] = 1
		p.Started.Side.Conveyed = true
		c.change(p)
		if SeeksHolder(p) != c.seeks || IsAbandoned(p) != c.abandoned {
			t.Errorf("%s: seeks %t, abandoned %t; want %t, %t", name, SeeksHolder(p), IsAbandoned(p), c.seeks, c.abandoned)
		}
	}
}

// A signal that comes after a freeze wakes the server, whatever looks there are before the guard reads of it.
func TestMissedSignal(t *testing.T) {
	p := &Page{}
	p.ByLauncher.Forwarded++
	p.SeeSignals()
	p.ByHelper.Frozen = true
	if p.MissedSignal() {
		t.Error("the server has got it before the freeze")
	}
	p.ByLauncher.Forwarded++
	p.SeeSignals()
	if !p.MissedSignal() {
		t.Error("a frozen server has got it")
	}
	p.ByHelper.Frozen = false // by the guard
	p.SeeSignals()
	p.ByHelper.Frozen = true
	if p.MissedSignal() {
		t.Error("the server has got it after the thaw")
	}
}
