// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Root reads whose servers were listed.
func TestNone(t *testing.T) {
	own := "no servers"
	if os.Getuid() == 0 {
		own = "no servers of root"
	}
	for want, s := range map[string]Selection{
		own: {}, "no servers": {AllUsers: true}, "no servers of the client claude": {Client: "claude"},
		"no servers of the project shop of the conversation 8a": {Project: "shop", Conversation: "8a"},
	} {
		if got := s.None(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

// server makes one that is listed.
func server(uid int, name, id string) *fleet.Listed {
	s := &fleet.Listed{Facts: protocol.Facts{Name: name}, UID: uid}
	s.Placed.ID = id
	return s
}

func session(uid int, name, id string) *fleet.Session {
	return &fleet.Session{UID: uid, Name: name, ID: id}
}

func TestMatches(t *testing.T) {
	of := server(0, "time", "k3x9w2ab")
	of.Facts.Client.PID = 7
	of.Facts.Client.Name = "claude"
	of.Facts.Project = "shop"
	of.Facts.Conversation = "abcdef"
	for _, c := range []struct {
		s    Selection
		want bool
	}{
		{Selection{}, true},
		{Selection{Client: "7"}, true},
		{Selection{Client: "claude"}, true},
		{Selection{Client: "clau"}, false},
		{Selection{Project: "shop", Conversation: "abc"}, true},
		{Selection{Project: "sho"}, false},
		{Selection{Conversation: "abcdefg"}, false},
		{Selection{Client: "claude", Project: "web"}, false},
	} {
		if got := c.s.matchesServer(of); got != c.want {
			t.Errorf("%+v: %v", c.s, got)
		}
	}
}

// A session is let through by the name of its agent, which has "_" for each "-", and by where that was started.
func TestMatchesSession(t *testing.T) {
	of := session(0, "my_agent", "k3x9w2ab")
	of.Project = "shop"
	for _, c := range []struct {
		s    Selection
		want bool
	}{
		{Selection{}, true},
		{Selection{Project: "shop"}, true},
		{Selection{Project: "web"}, false},
		{Selection{Conversation: "8a"}, false}, // the id of a conversation, which this agent has not
		{Selection{Conversation: "k3x9w2ab"}, false},
	} {
		if got := c.s.matchesSession(of); got != c.want {
			t.Errorf("%+v: %v", c.s, got)
		}
	}
	if !isCalled(of, "my-agent") || !isCalled(of, "my_agent") || isCalled(of, "agent") || isCalled(of, "") {
		t.Error("the name of the agent is not that of its session")
	}
}

// An id comes before a name, and a name before the beginning of an id. Nothing means several sessions.
func TestFindName(t *testing.T) {
	uid := os.Getuid()
	among := &Found{
		Servers: []*fleet.Listed{
			server(uid, "time", "abcd1234"), server(uid, "time", "abzz9999"), server(uid, "other", "tqme0000"),
			server(uid, "both", "s0000000"), server(uid, "ssss", "qqqq0000"),
		},
		Sessions: []*fleet.Session{
			session(uid, "codex", "cccc0000"), session(uid, "twice", "x1111111"), session(uid, "twice", "x2222222"),
			session(uid, "both", "bbbb0000"), session(uid, "late", "ssss1111"),
		},
	}
	for name, want := range map[string]string{
		"abcd1234": "abcd1234", "abc": "abcd1234", "time": "abcd1234 abzz9999", "other": "tqme0000",
		"ab": `"ab" is the beginning of several ids: abcd1234 (time), abzz9999 (time)`,
		"":   `there is no server ""`, "nobody": `there is no server "nobody"`,
		"codex": "session cccc0000", "ccc": "session cccc0000", "x1111111": "session x1111111",
		"twice": `several sessions can be meant by "twice"`, "x": `several sessions can be meant by "x"`,
		"both": `a server and a session can be meant by "both"`, "bbbb0000": "session bbbb0000",
		"s": `a server and a session can be meant by "s"`, "ssss": "qqqq0000",
	} {
		servers, found, err := (&Selection{}).findName(name, among)
		var got []string
		for _, s := range servers {
			got = append(got, s.Placed.ID)
		}
		if found != nil {
			got = append(got, "session "+found.ID)
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// A name, or the beginning of an id, is that of a server or session of the calling user. A whole id is that of
// any user's.
func TestFindNameAmongUsers(t *testing.T) {
	uid := os.Getuid()
	among := &Found{
		Servers: []*fleet.Listed{
			server(uid+1, "time", "aaaaaaaa"), server(uid, "time", "bbbbbbbb"), server(uid+1, "git", "cccccccc"),
			server(uid+2, "git", "dddddddd"), server(uid+2, "web", "eeeeeeee"),
		},
		Sessions: []*fleet.Session{session(uid+1, "codex", "ffffffff")},
	}
	count := func(s Selection, name string) (int, error) {
		servers, found, err := s.findName(name, among)
		if found != nil {
			return len(servers) + 1, err
		}
		return len(servers), err
	}
	for name, want := range map[string]string{
		"time": "", "b": "", "aaaaaaaa": "", "ffffffff": "", "d": `there is no server "d" of the client x`,
		"web":   `root has no server "web" of the client x, but other users have 1`,
		"git":   `root has no server "git" of the client x, but other users have 2`,
		"codex": `there is no server "codex" of the client x`,
	} {
		found, err := count(Selection{Client: "x"}, name)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want || err == nil && found != 1 {
			t.Errorf("%q: %q, %d found, want %q", name, got, found, want)
		}
		hint := remedy.Of(err)
		if strings.HasPrefix(got, "root has") && !strings.HasSuffix(hint, ": mcpscope ls --all-users --client x") {
			t.Errorf("%q: hint %q", name, hint)
		}
	}
	for name, want := range map[string]int{"time": 2, "git": 2, "d": 1, "aaaaaaaa": 1, "codex": 1} {
		if found, err := count(Selection{AllUsers: true}, name); err != nil || found != want {
			t.Errorf("%s of all users: %d found (%v), want %d", name, found, err, want)
		}
	}
}

// A hint has every word that a person gave, for a shell.
func TestCommandLine(t *testing.T) {
	age := 10 * time.Minute
	for want, s := range map[string]Selection{
		"mcpscope stop --yes":           {},
		"mcpscope stop git 'a b' --yes": {Names: []string{"git", "a b"}},
		"mcpscope stop --all --all-users --client 'x;y' --project shop --conversation 8a --unit u.service --older-than 10m0s --yes": {
			All: true, AllUsers: true, Client: "x;y", Project: "shop", Conversation: "8a", Unit: "u.service", OlderThan: &age,
		},
	} {
		if got := s.CommandLine("stop", "--yes"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	s := Selection{Names: []string{"git"}, All: true, Client: "x"}
	if got := s.WithoutNames().OfAllUsers().CommandLine("ls"); got != "mcpscope ls --all-users --client x" {
		t.Error(got)
	}
	if got := s.OfAllUsers().OnlyUsers().CommandLine("ls"); got != "mcpscope ls --all-users" {
		t.Error(got)
	}
}
