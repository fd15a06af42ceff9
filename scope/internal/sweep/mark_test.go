// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"strconv"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/test/groups"
)

// A server that starts waits for the next sweep as long as the mark says, but not for a mark that nobody of us has made.
func TestMark(t *testing.T) {
	parent := groups.Directory(t)
	if wait := untilNext(parent); wait > 0 {
		t.Errorf("%v without a mark", wait)
	}
	markNext(parent, time.Minute)
	if wait := untilNext(parent); wait <= 50*time.Second || wait > time.Minute {
		t.Errorf("%v of a minute", wait)
	}
	for _, mark := range []string{"", "soon", "-1", strconv.FormatInt(time.Now().Add(time.Hour).UnixNano(), 10), strconv.FormatInt(time.Now().UnixNano(), 10)} {
		if err := parent.SetAttr(group.AttrSwept, mark); err != nil {
			t.Fatal(err)
		}
		if wait := untilNext(parent); wait > 0 {
			t.Errorf("%v for the mark %q", wait, mark)
		}
	}
}
