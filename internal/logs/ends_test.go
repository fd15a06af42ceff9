// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/causes"
)

func TestCountEnds(t *testing.T) {
	var e Ends
	e.count(strings.NewReader(`{"__CURSOR":"a","MCPSCOPE_CAUSE":"out-of-memory"}
{"__CURSOR":"b","MCPSCOPE_CAUSE":"stdin-closed"}
{"__CURSOR":"c","MCPSCOPE_CAUSE":[255,1]}
{"__CURSOR":"d","MCPSCOPE_CAUSE":"forged"}
`))
	e.count(strings.NewReader(`{"__CURSOR":"e","MCPSCOPE_CAUSE":"out-of-memory"}` + "\n" + `not JSON`))
	if e.cursor != "e" || len(e.counts) != len(causes.All()) {
		t.Errorf("%+v", e)
	}
	if e.counts[causes.MemoryExhausted] != 2 || e.counts[causes.StdinClosed] != 1 {
		t.Errorf("%v", e.counts)
	}
}
