// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// load is how many servers run at a time, of three clients' groups.
func load() int {
	if escape.Full() {
		return 51
	}
	return 3
}

// Churn: servers start and end at random, while operators list them, sweep, and stop some. Each
// server ends by an act of its own client, or a stop that named it, and no command fails.
func Churn(t *testing.T, s Subject) {
	g := newGround(t, s)
	ended := make(chan struct{})
	var operators sync.WaitGroup
	for _, command := range []string{"sweep --quiet", "ls --json", "inspect " + g.name} {
		group := g.Unique("operator")
		operators.Go(func() { g.again(command, group, ended) })
	}
	t.Run("servers", func(t *testing.T) {
		for i := range load() {
			site := *g.Site
			lane := *g
			site.Dir = g.Unique("lane")
			site.View = g.Seen(site.Dir)
			lane.Site = &site
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				site.T = t
				lane.liveAndDie(2)
			})
		}
	})
	close(ended)
	operators.Wait()
}

// again runs a command until all servers have ended. It is no failure of inspect if a server has just ended.
func (g *ground) again(command, group string, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		default:
		}
		o, err := escape.Finish(group, g.Command(append([]string{g.Program}, strings.Fields(command)...)...))
		if err != nil || !strings.Contains(o.Stderr, "there is no server") && (o.Status != 0 || o.Stderr != "") {
			g.T.Errorf("%s ended with %v, %v; stderr: %s", command, o.Status, err, o.Stderr)
			return
		}
	}
}

// liveAndDie starts servers one after the other, and ends each in some way.
func (g *ground) liveAndDie(times int) {
	for range times {
		s := g.start(nil, g.Probe)
		status := rand.IntN(256)
		switch rand.IntN(3) {
		case 0:
			s.Tell("write exit %d", status)
			s.wantStatus(fmt.Sprint("exit ", status))
		case 1:
			s.Tell("close")
			s.wantStatus("exit 0")
		case 2:
			g.well("stop", "--grace", "0", s.id)
			s.wantStatus("signal 9")
		}
		s.members.WantDead(g.T)
	}
}

func (s *server) wantStatus(want string) {
	s.ground.T.Helper()
	if got := s.Status(escape.Patience); got != want {
		s.ground.T.Errorf("%s ended with %q, want %q; signals: %v", s.id, got, want, s.members.Said())
	}
}
