// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Root reads how it sees the servers of users.
func TestNone(t *testing.T) {
	own := "no servers"
	if os.Getuid() == 0 {
		own = "no servers of root; --all-users includes those of other users"
	}
	for f, want := range map[Filter]string{{}: own, {AllUsers: true}: "no servers", {Client: "claude"}: "no servers of the client claude"} {
		if got := f.None(); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}

func TestFindServers(t *testing.T) {
	time, other := protocol.Facts{Name: "time"}, protocol.Facts{Name: "other"}
	all := []*fleet.Listed{{Facts: time}, {Facts: time}, {Facts: other}}
	all[0].ID, all[1].ID, all[2].ID = "abcd1234", "abzz9999", "time0000"
	for arg, want := range map[string]string{
		"abcd1234": "abcd1234", "abc": "abcd1234", "time": "abcd1234 abzz9999", "other": "time0000",
		"ab": `"ab" is the beginning of several ids: abcd1234 (time), abzz9999 (time)`, "": `there is no server ""`, "nobody-is-called-so": `there is no server "nobody-is-called-so"`,
	} {
		found, err := find(all, arg)
		var got []string
		for _, s := range found {
			got = append(got, s.ID)
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", arg, got, want)
		}
	}
}
