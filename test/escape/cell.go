// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A Cell runs one way to stay alive against one way to stop a server, beside
// bystanders that must not be hurt.
type Cell struct {
	T      *testing.T
	Site   *Site
	Client *Client
	Group  string // mcpscope's directory for the server; "" if there is no group

	backend    Backend
	program    string
	server     string // its name, which no other cell's has
	mode       Mode
	end        End
	do         func()
	own        string   // the client's group
	slices     []string // where its servers' groups are; empty for a backend without
	members    *Members
	guard      *Process
	bystanders []*Bystander
	twins      []*Client // other servers of the same name, by other clients
	result     Result
	deadline   time.Time // for all that must have happened after the end
}

// MayBeSwept reports whether another cell's sweep may stop the server at any time: its guard has been moved.
func (c *Cell) MayBeSwept() bool { return c.mode.PullsParent }

// MayHaveNoScope reports whether no manager may be asked for one: all members leave the group at once, or the guard is
// stopped before it can say that there is a main process.
func (c *Cell) MayHaveNoScope() bool {
	return c.mode.Name == "move-main" || c.mode.Name == "stop-parent-first"
}

// bare runs the table without mcpscope, to see what it shows then.
var bare = os.Getenv("TESTS_BARE") != ""

var cells atomic.Int32

func newCell(t *testing.T, b Backend, program string, m Mode, e End) *Cell {
	t.Helper()
	c := &Cell{T: t, backend: b, program: program, mode: m, end: e, Site: b.Site(t), members: NewMembers(t)}
	m.require(c.Site)
	c.server = fmt.Sprintf("%s.%d", m.Name, cells.Add(1))
	sibling := c.Site.Group("sibling")
	twin := c.Site.Group("twin")
	c.own = c.Site.Group("client")
	c.bystanders = []*Bystander{c.Site.Root, c.Site.Plain("in the sibling group", sibling)}
	if !e.KillsGroup {
		c.bystanders = append(c.bystanders, c.Site.Plain("in the client's group", c.own))
	}
	if b.Groups != nil {
		c.slices = slices.Compact([]string{b.Groups(c.Site, c.own), b.Groups(c.Site, twin)})
	}
	c.AddTwin(c.Site.NewClient(twin, []string{"--group"}, c.PlainServer()))
	zoo := append([]string{c.Site.Programs.Zoo, "--register", c.members.Address,
		"--sibling", c.Site.Seen(sibling), "--scratch", c.Site.Seen(c.Site.Group("scratch"))}, m.Nice()...)
	c.start(c.run(append(zoo, m.Name)...))
	return c
}

func (c *Cell) start(command []string) {
	c.T.Helper()
	if c.end.Begin != nil {
		c.Client, c.do = c.end.Begin(c, command)
		return
	}
	c.Client = c.Site.NewClient(c.own, []string{"--group"}, command)
	c.do = func() { c.end.Do(c) }
}

// run is the command line that a client has in its configuration.
func (c *Cell) run(command ...string) []string {
	if bare {
		return command
	}
	line := []string{c.program, "run", "--backend", c.backend.Name, "--name", c.server, "--eof-grace", "300ms", "--term-grace", "300ms"}
	line = append(line, IdleFlags()...)
	if c.backend.Idle {
		line = append(line, "--idle-freeze", "50ms")
	}
	return append(append(line, "--"), command...)
}

// PlainServer is the command line of a server with the same name that echoes lines.
func (c *Cell) PlainServer() []string { return c.run(c.Site.Programs.Zoo, "plain") }

// AddTwin adds a client whose server, of the same name, must not be hurt.
func (c *Cell) AddTwin(twin *Client) { c.twins = append(c.twins, twin) }

// readyWithin is longer, since nothing is promised yet: a fork bomb takes its time on a slow
// machine. It leaves the zoo enough of its life for the end.
const readyWithin = 2 * Patience

// up waits until all members have been born and nothing but the end is missing.
func (c *Cell) up() {
	c.T.Helper()
	if c.backend.Idle { // what waits to be read keeps the server from being frozen before it is up
		c.Client.Tell("write first")
	}
	if err := c.members.UntilReady(readyWithin); err != nil {
		c.T.Fatalf("%s: %v; client: %q; stderr: %s", c.mode.Name, err, c.Client.Lines(), Contents(c.Client.Stderr))
	}
	for _, twin := range c.twins {
		if !twin.Lives("hello") {
			c.T.Fatalf("the twin does not answer: %q; stderr: %s", twin.Lines(), Contents(twin.Stderr))
		}
	}
	c.result.Members = c.members.Count()
	if bare {
		return
	}
	if !c.mode.KillsParent {
		c.find()
	}
	if c.backend.Idle {
		if err := AwaitIdle(c.Group, 0, Patience); err != nil {
			c.T.Fatalf("%v: it is not frozen: %s", err, attr(c.Group, "notes"))
		}
	}
	if c.mode.KillsParent && c.end.KillsLauncher {
		// Else the end could not find it.
		c.Client.Server.Ended(Patience)
	}
}

// find finds the server's group, and its guard.
func (c *Cell) find() {
	c.T.Helper()
	var err error
	main, id := c.members.Main()
	switch {
	case len(c.slices) == 0:
		c.guard, err = GuardOfTree(id)
	default:
		c.Group, c.guard, err = FindServer(c.slices[0], id)
	}
	if err != nil {
		where := ""
		if path, err := bed.ProcessPath(main.PID); err == nil { // notes say why it is there
			where = Tree(filepath.Dir(bed.Root(c.T)+path)) + "\n"
		}
		if len(c.slices) > 0 {
			where += Tree(c.slices[0])
		}
		c.T.Fatalf("%v; the members are in %v; %s; stderr: %s; %s", err, c.members.places(), Describe(c.Client.Server.PID), Contents(c.Client.Stderr), where)
	}
	c.T.Cleanup(c.guard.Close)
	c.bornInside()
}

// FindGroup finds a server's group in dir by the server's id, "" if it is not there.
func FindGroup(dir, id string) string {
	found := append(Servers(dir, "*", id), Servers(dir, "*", id+".scope")...)
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// Payload is the directory of a server's members, which a scope has beside its guard.
func Payload(group string) string {
	if strings.HasSuffix(group, ".scope") {
		return group + "/payload"
	}
	return group
}

// FindServer finds a server's group in dir by the server's id, and its guard.
func FindServer(dir, id string) (group string, guard *Process, err error) {
	group = FindGroup(dir, id)
	if group == "" {
		return "", nil, fmt.Errorf("no group with the id %q in %s", id, dir)
	}
	// A scope's guard changes the leaf when the manager has the scope. One that is a child of its launcher gets
	// its name when it first runs.
	pace.Eventually(Patience, func() bool {
		guard, err = guardOf(group, id)
		return err == nil
	})
	return group, guard, err
}

// bornInside: there was no moment at which a member could fork itself away.
func (c *Cell) bornInside() {
	c.T.Helper()
	if c.Group == "" || strings.HasPrefix(c.mode.Name, "move-") {
		return
	}
	payload := strings.TrimPrefix(Payload(c.Group), bed.Root(c.T))
	for who, path := range c.members.places() {
		if path != payload && !strings.HasPrefix(path, payload+"/") {
			c.T.Errorf("%s is in %s, not in %s", who, path, payload)
		}
	}
}
