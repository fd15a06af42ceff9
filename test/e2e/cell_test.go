package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A cell is one way to stay alive against one way to end it, with bystanders
// that nothing may happen to.
type cell struct {
	t          *testing.T
	mode       mode
	world      *world
	members    *members
	client     *client
	group      string // mcpscope's directory for the server
	supervisor *process
	bystanders []*bystander
	twin       *client // another server of the same name, by another client
	result     result
	deadline   time.Time // for all that must have happened after the end
}

// left is the time until the deadline; what is over at the deadline still shows.
func (c *cell) left() time.Duration {
	return max(time.Until(c.deadline), 100*time.Millisecond)
}

type result struct {
	members, left, bystandersDead int
	swept                         bool // it took a sweep
}

func newCell(t *testing.T, program string, m mode, e end) *cell {
	t.Helper()
	c := &cell{t: t, mode: m, world: newWorld(t), members: newMembers(t)}
	own, sibling := c.world.group("client"), c.world.group("sibling")
	c.bystanders = []*bystander{c.world.root, c.world.plain("in the sibling group", sibling)}
	if !e.killsGroup {
		c.bystanders = append(c.bystanders, c.world.plain("in the client's group", own))
	}
	zoo := []string{binaries.zoo, "--register", c.members.address,
		"--sibling", c.world.seen(sibling), "--scratch", c.world.seen(c.world.group("scratch")), m.name}
	c.twin = c.world.newClient(c.world.group("twin"), []string{"--group"}, run(program, m.name, binaries.zoo, "plain"))
	c.client = c.world.newClient(own, []string{"--group"}, run(program, m.name, zoo...))
	return c
}

// run is the command line that a client has in its configuration.
func run(program, name string, command ...string) []string {
	if bare {
		return command
	}
	return append([]string{program, "run", "--name", name, "--eof-grace", "300ms", "--term-grace", "300ms", "--"}, command...)
}

// up waits until all members have been born and nothing but the end is missing.
func (c *cell) up(e end) {
	c.t.Helper()
	if err := c.members.untilReady(patience); err != nil {
		c.t.Fatalf("%s: %v; client: %q; stderr: %s", c.mode.name, err, c.client.lines, contents(c.client.stderr))
	}
	if !c.twin.lives("hello") {
		c.t.Fatalf("the twin does not answer: %q; stderr: %s", c.twin.lines, contents(c.twin.stderr))
	}
	c.result.members = c.members.count()
	if bare {
		return
	}
	if !c.mode.killsParent {
		c.group, c.supervisor = c.world.find(c.members)
		c.bornInside()
	}
	if c.mode.killsParent && e.killsLauncher {
		// Else both guards would be killed at a time, which makes an orphan: another
		// promise, with tests of its own.
		c.client.server.ended(patience)
	}
}

// bornInside: there was no moment at which a member could fork itself away.
func (c *cell) bornInside() {
	c.t.Helper()
	if strings.HasPrefix(c.mode.name, "move-") {
		return
	}
	payload := strings.TrimPrefix(c.group, bed.Root(c.t)) + "/payload"
	for who, path := range c.members.places() {
		if path != payload && !strings.HasPrefix(path, payload+"/") {
			c.t.Errorf("%s is in %s, not in %s", who, path, payload)
		}
	}
}

// judge fails the test for everything that is not as promised, after the end.
func (c *cell) judge(e end) {
	c.t.Helper()
	c.deadline = time.Now().Add(patience)
	if c.exempt(e) {
		c.deadline = time.Now().Add(2 * time.Second) // some are known to stay
	}
	if c.mode.keepsStopping && e.killsLauncher {
		c.deadline = time.Now().Add(3 * time.Second) // some may
	}
	if !e.killsLauncher {
		c.judgeLauncher(e)
	}
	c.result.left = c.members.untilDead(c.left())
	if c.result.left > 0 && c.mode.keepsStopping && e.killsLauncher {
		c.sweepStopped()
	}
	c.result.members = c.members.count()
	if c.exempt(e) {
		c.judgeExempt()
	} else if c.result.left > 0 {
		c.t.Errorf("%d members left:\n\t%s", c.result.left, strings.Join(c.members.survivors(), "\n\t"))
	}
	c.judgeGuards()
	if !e.killsClient {
		c.judgeClient(e)
	}
	c.judgeBystanders()
	c.world.clean() // by now the twin has ended too
}

// sweepStopped: a supervisor that is stopped again and again may miss the one moment
// in which the kernel wakes it for its launcher's death. The next sweep ends it.
func (c *cell) sweepStopped() {
	c.t.Helper()
	c.result.swept = true
	c.world.sweep()
	c.deadline = time.Now().Add(patience)
	c.result.left = c.members.untilDead(c.left())
}

// judgeLauncher: it returns by itself, and not before the last member is dead.
func (c *cell) judgeLauncher(e end) {
	c.t.Helper()
	if !c.client.server.ended(c.left()) {
		c.t.Errorf("the launcher did not return: %s", describe(c.client.server.pid))
		return
	}
	if early := c.members.running(); len(early) > 0 && !c.exempt(e) {
		c.t.Errorf("the launcher returned before %d members were dead: %.200q", len(early), early)
	}
}

// judgeExempt: who moved away from the group while its supervisor was killed is
// left, and nobody else.
func (c *cell) judgeExempt() {
	c.t.Helper()
	if c.result.left == 0 {
		c.t.Error("nothing is left: better than documented, so this cell is no exemption any more")
	}
	c.members.kill()
	if n := c.members.untilDead(patience); n > 0 {
		c.t.Errorf("%d members outlive SIGKILL:\n\t%s", n, strings.Join(c.members.survivors(), "\n\t"))
	}
}

// judgeGuards: launcher and supervisor go when their work is done.
func (c *cell) judgeGuards() {
	c.t.Helper()
	if !c.client.server.ended(c.left()) {
		c.t.Errorf("the launcher lives: %s", describe(c.client.server.pid))
	}
	if c.supervisor != nil && !c.supervisor.ended(c.left()) {
		c.t.Errorf("the supervisor lives: %s", describe(c.supervisor.pid))
	}
}

// judgeClient: it sees the end of the server's stdout and how the server ended,
// and nothing on stderr, which clients take for a failure.
func (c *cell) judgeClient(e end) {
	c.t.Helper()
	if _, seen := c.client.find("stdout-eof", c.left()); !seen {
		c.t.Error("the client did not see the end of its server's stdout")
	}
	if c.client.status(c.left()) == "" {
		c.t.Error("the client did not see its server end")
	}
	said := contents(c.client.stderr)
	if broken := e.killsSupervisor || c.mode.killsParent; said != "" && !broken {
		c.t.Errorf("stderr: %q", said)
	}
}

func (c *cell) judgeBystanders() {
	c.t.Helper()
	for _, b := range c.bystanders {
		if !b.lives() {
			c.result.bystandersDead++
			c.t.Errorf("the bystander %s does not answer: %s", b.name, describe(b.cmd.Process.Pid))
		}
	}
	if !c.twin.lives("still there?") {
		c.result.bystandersDead++
		c.t.Errorf("the other server of this name does not answer: %q; stderr: %s", c.twin.lines, contents(c.twin.stderr))
		return
	}
	c.twin.tell("close")
	if status := c.twin.status(patience); status != "exit 0" {
		c.t.Errorf("the other server of this name ended with %q; stderr: %s", status, contents(c.twin.stderr))
	}
}

// alone: with all that the test knows of gone, the world is empty.
func (c *cell) alone() {
	c.t.Helper()
	for _, b := range c.bystanders[1:] {
		b.end()
	}
	c.client.end()
	c.twin.end()
	c.world.root.end()
	if err := bed.WaitEmpty(c.world.dir, time.Second); err != nil {
		c.t.Errorf("unknown processes in the world: %s", tree(c.world.dir))
	}
}

// tree lists the groups below dir with their processes.
func tree(dir string) string {
	var lines []string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // removed meanwhile, or a file
		}
		pids, err := groupPids(path)
		lines = append(lines, fmt.Sprintf("%s: %v", strings.TrimPrefix(path, dir), pids))
		for _, pid := range pids {
			lines = append(lines, "\t"+describe(pid))
		}
		return err
	})
	return strings.Join(lines, "\n\t")
}
