// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Root reads whose servers were listed.
func TestNone(t *testing.T) {
	own := "no servers"
	if os.Getuid() == 0 {
		own = "no servers of root"
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

func TestLetsThrough(t *testing.T) {
	s := &fleet.Listed{}
	s.Client.PID = 7
	s.Client.Name = "claude"
	s.Project = "shop"
	s.Session = "abcdef"
	for f, want := range map[Filter]bool{
		{}:                                 true,
		{Client: "7"}:                      true,
		{Client: "claude"}:                 true,
		{Client: "clau"}:                   false,
		{Project: "shop", Session: "abc"}:  true,
		{Project: "sho"}:                   false,
		{Session: "abcdefg"}:               false,
		{Client: "claude", Project: "web"}: false,
	} {
		if got := f.letsThrough(s); got != want {
			t.Errorf("%+v: %v", f, got)
		}
		if f.IsNarrow() != (f != Filter{}) {
			t.Errorf("%+v: narrow is %v", f, f.IsNarrow())
		}
	}
}

// A name, or the beginning of an id, is that of a server of the calling user. A whole id is that of any server.
func TestFindAmongUsers(t *testing.T) {
	server := func(uid int, name, id string) *fleet.Listed {
		s := &fleet.Listed{Facts: protocol.Facts{Name: name}, UID: uid}
		s.ID = id
		return s
	}
	uid := os.Getuid()
	servers := []*fleet.Listed{
		server(uid+1, "time", "aaaaaaaa"), server(uid, "time", "bbbbbbbb"), server(uid+1, "git", "cccccccc"), server(uid+2, "git", "dddddddd"), server(uid+2, "web", "eeeeeeee"),
	}
	for arg, want := range map[string]string{
		"time": "bbbbbbbb", "b": "bbbbbbbb", "aaaaaaaa": "aaaaaaaa", "d": `there is no server "d"`,
		"web": `root has no server "web", but other users have 1`,
		"git": `root has no server "git", but other users have 2`, "x": `there is no server "x"`,
	} {
		found, err := (&Filter{}).find(servers, arg)
		got := ""
		if err != nil {
			got = err.Error()
		} else if len(found) == 1 {
			got = found[0].ID
		}
		if got != want {
			t.Errorf("%q: %q, want %q", arg, got, want)
		}
	}
	everyone := &Filter{AllUsers: true}
	for arg, want := range map[string]int{"time": 2, "git": 2, "d": 1, "aaaaaaaa": 1} {
		if found, err := everyone.find(servers, arg); err != nil || len(found) != want {
			t.Errorf("%s of all users: %d servers (%v), want %d", arg, len(found), err, want)
		}
	}
}
