// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/causes"
)

func TestReadEnded(t *testing.T) {
	const entries = `{"__REALTIME_TIMESTAMP":"1700000010000000","_UID":"1000","MCPSCOPE_EVENT":"ended","MCPSCOPE_ID":"k3x9w2ab","MCPSCOPE_NAME":"time","MCPSCOPE_CAUSE":"client-died","MCPSCOPE_SECONDS":"2.5","MCPSCOPE_CPU_SECONDS":"0.25","MCPSCOPE_MEMORY_PEAK_BYTES":"4096","MCPSCOPE_CLIENT":"hermes","MCPSCOPE_CLIENT_PID":"7","MCPSCOPE_PROJECT":"shop","MCPSCOPE_STUCK":"process 1"}
not JSON
{"__REALTIME_TIMESTAMP":"1700000010000000","MCPSCOPE_ID":[1,2],"MCPSCOPE_EVENT":"ended"}
{"MCPSCOPE_ID":"without-a-time","MCPSCOPE_EVENT":"ended"}
{"__REALTIME_TIMESTAMP":"1700000020000000","_UID":"0","MCPSCOPE_EVENT":"swept","MCPSCOPE_ID":"stuckone","MCPSCOPE_STUCK":"process 2"}
{"__REALTIME_TIMESTAMP":"1700000030000000","_UID":"0","MCPSCOPE_EVENT":"swept","MCPSCOPE_ID":"p0vv3khv","MCPSCOPE_NAME":"git"}
{"__REALTIME_TIMESTAMP":"1700000040000000","_UID":"0","MCPSCOPE_EVENT":"swept","MCPSCOPE_ID":"f00df00d","MCPSCOPE_OWNER":"1000","MCPSCOPE_SECONDS":"3"}
{"__REALTIME_TIMESTAMP":"1700000050000000","_UID":"7","MCPSCOPE_EVENT":"ended","MCPSCOPE_ID":"f0r9edf0","MCPSCOPE_OWNER":"1000"}
{"__REALTIME_TIMESTAMP":"1700000060000000","_UID":"7","MCPSCOPE_EVENT":"failed","MCPSCOPE_ID":"n0tst4rt","MCPSCOPE_NAME":"typo"}`
	ended := readEnded(strings.NewReader(entries))
	if len(ended) != 5 {
		t.Fatalf("%+v", ended)
	}
	first := ended[0]
	if first.ID != "k3x9w2ab" || first.Name != "time" || first.UID != 1000 || first.Cause != causes.ClientDied ||
		first.ClientPID != 7 || first.ClientName != "hermes" || first.Project != "shop" || first.CPU != 0.25 || *first.Peak != 4096 {
		t.Errorf("%+v", first)
	}
	if !first.Ended.Equal(time.Unix(1_700_000_010, 0)) || first.Ended.Sub(*first.Started) != 2500*time.Millisecond {
		t.Errorf("from %v to %v", first.Started, first.Ended)
	}
	if swept := ended[1]; swept.ID != "p0vv3khv" || swept.Cause != Swept || swept.Started != nil || swept.Peak != nil {
		t.Errorf("%+v", swept)
	}
	if byRoot := ended[2]; byRoot.UID != 1000 || byRoot.Ended.Sub(*byRoot.Started) != 3*time.Second {
		t.Errorf("swept by root: %+v", byRoot)
	}
	if failed := ended[4]; failed.Name != "typo" || failed.Cause != NotStarted || failed.Started != nil {
		t.Errorf("not started: %+v", failed)
	}
	if forged := ended[3]; forged.UID != 7 {
		t.Errorf("the owner that a user writes counts: %+v", forged)
	}
}
