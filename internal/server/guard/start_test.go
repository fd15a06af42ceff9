// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// The constants of a plain run are those of every other one.
func TestSharedConstants(t *testing.T) {
	for own, others := range map[string]string{
		groupPrefix:   names.GroupPrefix,
		scopeSuffix:   names.ScopeSuffix,
		sessionPrefix: names.SessionPrefix,
		sliceName:     names.Slice,
		payloadName:   names.PayloadName,
		guardsName:    names.GuardsName,
		guardPrefix:   names.GuardPrefix,
		helperPrefix:  names.HelperPrefix,
		helperCommand: names.HelperCommand,
		attrArmed:     group.AttrArmed,
		attrLimits:    group.AttrLimits,
		attrNotes:     group.AttrNotes,
		attrHeld:      idle.AttrHeld,
		idLetters:     names.IDLetters,
	} {
		if strings.TrimSuffix(own, "\x00") != others {
			t.Errorf("%q here, and %q elsewhere", own, others)
		}
	}
	for name, c := range map[string]struct{ own, others int64 }{
		"idLength":         {idLength, names.IDLength},
		"groupMode":        {groupMode, group.GroupMode},
		"stopSignal":       {int64(stopSignal), int64(names.StopSignal)},
		"settleAfter":      {settleAfter, int64(policy.SettleAfter)},
		"ReclaimedWithin":  {page.ReclaimedWithin, int64(policy.ReclaimedWithin)},
		"page.RepeatAfter": {page.RepeatAfter, int64(policy.RepeatAfter)},
	} {
		if c.own != c.others {
			t.Errorf("%s: %d here, and %v elsewhere", name, c.own, time.Duration(c.others))
		}
	}
	var ends uint64
	for _, sig := range linux.Ending {
		ends |= 1 << (sig - 1)
	}
	if ends != ending {
		t.Errorf("signals that end a server: %#x here, and %#x elsewhere", uint64(ending), ends)
	}
}

// The tag of an id is that of all other processes, too.
func TestTagOfAnID(t *testing.T) {
	for _, text := range []string{"k3x9w2ab", "22222222", "zzzzzzzz"} {
		id := [idLength]byte{}
		copy(id[:], text)
		want := uint64(group.TagOf(text))
		if got := tagOf(&id); got != want || !freeze.Tag(got).IsTag() {
			t.Errorf("%s: %#x, want %#x", text, got, want)
		}
	}
	if unix.RLIM_INFINITY>>tagBits == tagMagic {
		t.Error("no limit would pass for a tag")
	}
}
