// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// An orphan of which the start is not known is not proven to be old.
func TestFilterIncludes(t *testing.T) {
	young := &protocol.Facts{Started: time.Now().Add(-time.Minute).UnixNano(), Client: protocol.ClientFacts{Unit: "u.service"}}
	unknown := &protocol.Facts{}
	for _, c := range []struct {
		filter SweepFilter
		of     *protocol.Facts
		want   bool
	}{
		{SweepFilter{}, young, true},
		{SweepFilter{}, unknown, true},
		{SweepFilter{OlderThan: time.Second}, young, true},
		{SweepFilter{OlderThan: time.Hour}, young, false},
		{SweepFilter{OlderThan: time.Second}, unknown, false},
		{SweepFilter{Unit: "u.service"}, young, true},
		{SweepFilter{Unit: "v.service"}, young, false},
		{SweepFilter{Unit: "v.service", OlderThan: time.Second}, young, false},
	} {
		if got := c.filter.includes(c.of); got != c.want {
			t.Errorf("%+v, started at %d: %t", c.filter, c.of.Started, got)
		}
	}
}
