// SPDX-License-Identifier: Apache-2.0

package kills

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A kill is the life of one server, with a kill in it.
type kill struct {
	table *Table
	plan  *plan
	cell  cell
	shape shape
	plain bool // no flag but --name, so that the start has nothing to prepare; the graces are the usual ones
	rand  *rand.Rand
	name  string

	t      *testing.T
	site   *escape.Site
	groups string // directory of the servers' groups; "" where they have none
	client *escape.Client

	killed map[int]bool // guards and helpers, by pid
	missed int          // victims that were not there
	// The processes that were hit.
	launcherKilled, guardKilled, clientKilled bool
	ended                                     string // how the server was asked to end: "EOF", "TERM", "stop", or ""
	swept                                     bool
	lost                                      bool     // launcher and guard of a tree were dead
	story                                     []string // for the message of a failure
}

func (k *kill) run(t *testing.T, site *escape.Site, group string) {
	k.t = t
	k.site = site
	if k.table.Backend.Groups != nil {
		k.groups = k.table.Backend.Groups(site, group)
	}
	k.start(group)
	defer k.client.End()
	defer k.explainFailure()
	k.arrive()
	if t.Failed() {
		return
	}
	for i, victim := range k.cell.victims {
		if i > 0 {
			k.pause(pairWithin)
		}
		k.strike(victim)
	}
	if !k.launcherKilled && !k.clientKilled && k.ended == "" && k.shape.brief == "" {
		k.live()
	}
	k.judge()
	k.plan.count(k)
}

func (k *kill) explainFailure() {
	if !k.t.Failed() {
		return
	}
	k.t.Logf("seed %d: %s, server %s, plain %v: %s", k.plan.seed, k.cell, k.shape.name, k.plain,
		strings.Join(k.story, ", "))
	k.t.Logf("the client says %q; stderr: %s", k.client.Lines(), escape.Contents(k.client.Stderr))
}

// start starts a client that is the leader of the server's process group.
func (k *kill) start(group string) {
	line := []string{k.table.Program, "run", "--name", k.name}
	if !k.plain {
		graces := []string{"--eof-grace", grace.String(), "--term-grace", grace.String()}
		line = append(line, "--backend", k.table.Backend.Name)
		line = append(line, graces...)
	}
	if k.cell.moment == frozenIdle {
		line = append(line, "--idle-freeze", "20ms")
	}
	line = append(line, "--", "sh", "-c", "zoo=$0; echo up; "+k.shape.script, k.site.Programs.Zoo)
	cmd := k.site.Command(k.site.ClientLine(nil, line)...)
	cmd.Env = append(cmd.Env, k.mark())
	k.client = escape.StartClient(k.t, cmd, func() error { return escape.StartIn(group, cmd) })
}

// pause passes a random time: no event is meant, the kill may come at any moment.
func (k *kill) pause(within time.Duration) {
	d := time.Duration(k.rand.Int64N(int64(within)))
	k.note("after " + d.Round(10*time.Microsecond).String())
	time.Sleep(d)
}

func (k *kill) note(text string) { k.story = append(k.story, text) }

// arrive returns at a random moment of the kind that the cell is about.
func (k *kill) arrive() {
	k.t.Helper()
	if k.cell.moment == starting {
		within := startWithin
		if k.rand.IntN(2) == 0 {
			within = startEarly
		}
		k.pause(within)
		return
	}
	k.client.Expect("out up")
	if !k.client.Lives("ready") {
		k.t.Error("the server does not answer before the kill")
		return
	}
	within := anyMoment
	switch k.cell.moment {
	case eofGrace:
		k.end("EOF")
		within = grace
	case termGrace:
		k.end("TERM")
		within = grace
	case takingOver:
		k.strike(launcher)
	case frozenIdle:
		k.awaitFrozen()
	}
	k.pause(within)
}

func (k *kill) awaitFrozen() {
	k.t.Helper()
	found := escape.Servers(k.groups, k.name, "*")
	if len(found) != 1 {
		k.t.Errorf("the server has the groups %q", found)
		return
	}
	if err := escape.AwaitIdle(found[0], 0, escape.Patience); err != nil {
		k.t.Error(err)
	}
}

// end asks the server to end, as its client does.
func (k *kill) end(how string) {
	k.note(how)
	k.ended = how
	switch how {
	case "EOF":
		k.client.Tell("close")
	case "TERM":
		k.client.Tell("signal %d", unix.SIGTERM)
	}
}

// strike kills a victim. A victim that is not there is counted.
func (k *kill) strike(victim string) {
	hit := true
	switch victim {
	case launcher:
		hit = !k.client.Server.Ended(0)
		k.client.Server.Signal(unix.SIGKILL)
		k.launcherKilled = k.launcherKilled || hit
	case guard:
		hit = k.killKind(guard)
		k.guardKilled = k.guardKilled || hit
	case helper:
		hit = k.killHelper()
	case "stop":
		hit = k.stop()
	case "client":
		k.client.Own.Signal(unix.SIGKILL)
		k.clientKilled = true
	case "group":
		// The test has not reaped the client, which leads the group: the number is still its own.
		_ = unix.Kill(-k.client.Own.PID, unix.SIGKILL)
		k.launcherKilled = true
		k.clientKilled = true
	case "tree":
		escape.KillTree(k.client.Own)
		k.launcherKilled = true
		k.clientKilled = true
	}
	if hit {
		k.note("it met " + victim)
	} else {
		k.note("no " + victim)
		k.missed++
	}
}

// stop has an operator stop the server. When that has returned, no member is left. It reports whether there
// was a server.
func (k *kill) stop() bool {
	k.t.Helper()
	o, err := escape.Finish(k.site.Dir, k.site.Command(k.table.Program, "stop", k.name))
	left := k.ofKind(member)
	switch {
	case err != nil:
		k.t.Error(err)
	case strings.Contains(o.Stderr, "there is no server"):
		return false
	case o.Status != 0 || o.Stderr != "":
		k.t.Errorf("stop: %v", o)
	}
	for _, p := range left {
		if p.marked {
			k.t.Errorf("stop returned before a member was dead: %s", p)
		}
	}
	if k.ended == "" {
		k.ended = "stop"
	}
	return true
}

// killHelper waits for a helper, which comes some time after the event that it decides about.
func (k *kill) killHelper() bool {
	for deadline := time.Now().Add(helperWithin); len(k.ofKind(helper)) == 0; time.Sleep(time.Millisecond) {
		over := k.client.Server.Ended(0) && k.abandoned()
		if over || time.Now().After(deadline) {
			return false
		}
	}
	k.pause(pairWithin)
	return k.killKind(helper)
}

// live: launcher and client were not hit, so the server does not notice anything. It answers, and has a guard
// again. Then it is ended in one of three ways.
func (k *kill) live() {
	k.t.Helper()
	if k.guardKilled && !guardIsRenewed {
		k.end("EOF") // if it was killed before it had anything to guard
		return
	}
	if !k.comesUp() {
		return
	}
	if !k.client.Lives("afterwards") {
		k.t.Error("the server does not answer after the kill")
		return
	}
	if !pace.Eventually(escape.Patience, k.guarded) {
		k.t.Errorf("there is no guard: %v", k.look())
		return
	}
	switch k.rand.IntN(3) {
	case 0:
		k.end("EOF")
	case 1:
		k.end("TERM")
	case 2: // the new guard has to stop it
		k.guardKilled = false
		k.strike(launcher)
	}
}

// comesUp waits until the server runs. It is false if the launcher has ended without.
func (k *kill) comesUp() bool {
	up := false
	pace.Eventually(escape.Patience, func() bool {
		up = slices.Contains(k.client.Lines(), "out up")
		return up || k.client.Server.Ended(0)
	})
	return up
}

func (k *kill) guarded() bool {
	return slices.ContainsFunc(k.ofKind(guard), func(p process) bool { return !k.killed[p.pid] })
}
