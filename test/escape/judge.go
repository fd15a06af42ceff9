// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

// left is the time until the deadline, but at least the time to see that an event has happened already.
func (c *Cell) left() time.Duration {
	return max(pace.Until(c.deadline), 100*time.Millisecond)
}

// judge fails the test for everything that is not as promised, after the end.
func (c *Cell) judge() {
	c.T.Helper()
	c.deadline = pace.Now().Add(Patience)
	if c.exempt() {
		c.deadline = pace.Now().Add(2 * time.Second) // some are known to stay
	}
	endsWatcher := c.end.KillsLauncher || c.end.KillsGuard || c.end.AsksLauncher
	mayNeedSweep := (c.mode.KeepsStopping || c.mode.PullsParent || c.killsBoth()) && endsWatcher
	mayNeedSweep = (mayNeedSweep || c.mode.StopsGuard) && !c.exempt()
	if mayNeedSweep {
		c.deadline = pace.Now().Add(3 * time.Second) // some may
	}
	if !c.end.KillsLauncher && !c.mode.KillsParent && !mayNeedSweep && !c.exempt() { // an exempt cell's launcher may wait for members that are left
		c.judgeLauncher()
	}
	c.result.Left = c.members.UntilDead(c.left())
	if mayNeedSweep && (c.killsBoth() || c.mode.PullsParent || c.result.Left > 0 || c.guard != nil && !c.guard.Ended(c.left())) {
		c.sweepStopped()
	}
	if mayNeedSweep {
		c.deadline = pace.Now().Add(Patience) // for launcher and guard
	}
	c.result.Members = c.members.Count()
	if c.exempt() {
		c.judgeExempt()
	} else if c.result.Left > 0 {
		c.T.Errorf("%d members left:\n\t%s", c.result.Left, strings.Join(c.members.Survivors(), "\n\t"))
	}
	c.judgeGuards()
	if !c.end.KillsClient {
		c.judgeClient()
	}
	c.judgeBystanders()
	c.judgeGroups()
}

// exempt reports whether members are known to be left.
func (c *Cell) exempt() bool { return c.backend.exempt(c.mode, c.end) != "" }

// TookASweep is the log line of a cell that shows as "s" in the table.
const TookASweep = "it took a sweep"

// killsBoth reports whether the server kills its guard, and then the client the launcher with its children: the next
// guard is one of these.
func (c *Cell) killsBoth() bool { return c.mode.Name == "kill-guard" && c.end.Name == "tree" }

// sweepStopped sweeps: only a sweep continues a stopped guard whose launcher is dead, or a stopped launcher whose guard is,
// or that got a signal. Only a sweep removes a group that was killed with the guard in it.
func (c *Cell) sweepStopped() {
	c.T.Helper()
	c.result.Swept = true
	c.T.Log(TookASweep)
	c.sweep()
	c.deadline = pace.Now().Add(Patience)
	c.result.Left = c.members.UntilDead(c.left())
}

func (c *Cell) sweep() {
	c.T.Helper()
	cmd := c.Site.Command(c.program, "sweep", "--quiet")
	said := MemoryFile(c.T)
	cmd.Stderr = said
	c.Site.Start(c.Site.Unique("sweeper"), cmd) // the client's group may have been killed as a whole
	if err := cmd.Wait(); err != nil || Contents(said) != "" {
		c.T.Errorf("sweep ended with %v; stderr: %s", err, Contents(said))
	}
}

// judgeLauncher: it returns by itself, and not before the last member is dead.
func (c *Cell) judgeLauncher() {
	c.T.Helper()
	if !c.Client.Server.Ended(c.left()) {
		c.T.Errorf("the launcher did not return: %s", Describe(c.Client.Server.PID))
		return
	}
	if early := c.members.Running(); len(early) > 0 && !c.mode.PullsParent { // which is killed with the group then
		c.T.Errorf("the launcher returned before %d members were dead: %.200q", len(early), early)
	}
}

// judgeExempt: only members that moved out of the group before its guard was killed can survive. On a busy machine the guard may
// be killed after it has found them.
func (c *Cell) judgeExempt() {
	c.T.Helper()
	c.result.Exempt = true
	c.members.Kill()
	c.Client.Server.Signal(unix.SIGCONT) // a member may have stopped it
	if n := c.members.UntilDead(Patience); n > 0 {
		c.T.Errorf("%d members outlive SIGKILL:\n\t%s", n, strings.Join(c.members.Survivors(), "\n\t"))
	}
	c.deadline = pace.Now().Add(Patience) // for guards that waited for them
}

// judgeGuards: launcher and guard exit when their work is done.
func (c *Cell) judgeGuards() {
	c.T.Helper()
	if !c.Client.Server.Ended(c.left()) {
		c.T.Errorf("the launcher lives: %s", Describe(c.Client.Server.PID))
	}
	if c.guard != nil && !c.guard.Ended(c.left()) {
		c.T.Errorf("the guard lives: %s", Describe(c.guard.PID))
	}
}

// judgeClient: the client sees EOF on the server's stdout, and the server's status.
// It sees nothing on stderr, which clients take for a failure.
func (c *Cell) judgeClient() {
	c.T.Helper()
	if _, seen := c.Client.Find("stdout-eof", c.left()); !seen {
		c.T.Error("the client did not see the end of its server's stdout")
	}
	if c.Client.Status(c.left()) == "" {
		c.T.Error("the client did not see its server end")
	}
	said := Contents(c.Client.Stderr)
	broken := c.mode.KillsParent || c.mode.PullsParent || c.backend.hasty(c.mode, c.end)
	if said != "" && !broken {
		c.T.Errorf("stderr: %q", said)
	}
}

func (c *Cell) judgeBystanders() {
	c.T.Helper()
	for _, b := range c.bystanders {
		if !b.Lives() {
			c.result.BystandersDead++
			c.T.Errorf("the bystander %s does not answer: %s", b.Name, Describe(b.Cmd.Process.Pid))
		}
	}
	for _, twin := range c.twins {
		if !twin.Lives("still there?") {
			c.result.BystandersDead++
			c.T.Errorf("the other server of this name does not answer: %q; stderr: %s", twin.Lines(), Contents(twin.Stderr))
			continue
		}
		twin.Tell("close")
		if status := twin.Status(Patience); status != "exit 0" {
			c.T.Errorf("the other server of this name ended with %q; stderr: %s", status, Contents(twin.Stderr))
		}
	}
}

// judgeGroups: by now the twins have ended too.
func (c *Cell) judgeGroups() {
	c.T.Helper()
	if c.backend.Owns && c.end.KillsGroup {
		// All guards were killed, so the maker of the client's group must remove it: this test.
		if err := bed.Destroy(c.own); err != nil {
			c.T.Error(err)
		}
	}
	if c.backend.hasty(c.mode, c.end) { // the manager may have forgotten the group, or be about to
		SweepUntil(func() bool {
			return !slices.ContainsFunc(c.slices, func(dir string) bool { return len(Servers(dir, c.server, "*")) > 0 })
		}, c.sweep)
	}
	for _, dir := range c.slices {
		if c.backend.Removal == 0 { // otherwise systemd removes groups, and other tests share dir
			AwaitGuards(c.T, dir)
		}
		WantNoServers(c.T, dir, c.server, c.backend.Removal)
	}
}

// alone: after all processes that the test knows have ended, the site is empty.
func (c *Cell) alone() {
	c.T.Helper()
	for _, b := range c.bystanders[1:] {
		b.End()
	}
	c.Client.End()
	for _, twin := range c.twins {
		twin.End()
	}
	c.Site.Root.End()
	if err := bed.WaitEmpty(c.Site.Dir, Patience); err != nil {
		c.T.Errorf("unknown processes in the site: %s", Tree(c.Site.Dir))
	}
}

// measure is judge for a run without mcpscope: it counts and asserts nothing.
func (c *Cell) measure() {
	c.result.Left = c.members.UntilDead(1500 * time.Millisecond)
	c.result.Members = c.members.Count()
	for _, b := range c.bystanders {
		if !b.Lives() {
			c.result.BystandersDead++
		}
	}
}
