// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A Cell is a gateway with a server that must end, a second one, and a process that a tool has left running.
type Cell struct {
	T        *testing.T
	G        *Gateway
	End      End
	Programs escape.Programs
	// Run runs a command of mcpscope where the gateway is.
	Run func(args ...string)
	// Forgets: an empty group may be forgotten by the process that made it; a sweep removes it.
	Forgets bool
	// Guard finds the process that starts the watcher, if the cell kills that.
	Guard func() *escape.Process

	one, two *Server
}

// End is a way in which a server's life is over.
type End struct {
	Name string
	Do   func(*Cell)
	// Gateway: all servers must end, with the gateway; Tools: the processes that its tools have left, too.
	Gateway, Tools bool
}

// Ends are those that any host has.
func Ends() []End {
	return []End{
		{Name: "stdin", Do: func(c *Cell) { c.G.Tell("close one") }},
		{Name: "kill", Do: func(c *Cell) { c.one.Main.Signal(unix.SIGKILL) }},
		{Name: "watcher", Do: func(c *Cell) {
			c.G.Watcher().Signal(unix.SIGKILL)
			c.G.Tell("close one")
		}},
		{Name: "stop", Do: func(c *Cell) { c.Run("stop", c.one.ID) }},
		{Name: "gw-exit", Gateway: true, Do: func(c *Cell) { c.G.Tell("exit 1") }},
		{Name: "gw-kill", Gateway: true, Do: func(c *Cell) { c.G.Own.Signal(unix.SIGKILL) }},
	}
}

// Judge starts everything, ends the server, and fails the test for whatever is not as it should be.
func (c *Cell) Judge(options, mode string, beside ...*escape.Bystander) escape.Result {
	c.T.Helper()
	c.two = c.G.Server(c.Programs, "two", "setsid")
	tool := c.G.Tool("tool")
	c.one = c.G.Server(c.Programs, "one", options+mode) // last: some leave others no processor
	path, err := bed.ProcessPath(c.one.Main.PID)
	hasGroup := c.G.Groups != ""
	if hasGroup && !strings.HasPrefix(mode, "move-") && mode != "dead-leader-main" && !strings.Contains(path, "/mcp-") {
		c.T.Errorf("the main process is in %s (%v)", path, err)
	}
	if !hasGroup && strings.Contains(path, "/mcp-") {
		c.T.Errorf("the main process is in %s: then this tests no tree", path)
	}
	c.End.Do(c)
	r := escape.Result{Left: c.gone(c.one)}
	if !c.End.Gateway {
		c.G.Answers("two")
	}
	switch {
	case !c.End.Tools && tool.Ended(0):
		r.BystandersDead++
		c.T.Error("what a tool has left is dead")
	case c.End.Tools && !tool.Ended(escape.Patience):
		c.T.Error("what a tool has left lives: then this does not test what systemd does")
	}
	for _, b := range beside {
		if !b.Lives() {
			r.BystandersDead++
			c.T.Errorf("the bystander %s does not answer", b.Name)
		}
	}
	if !c.End.Gateway {
		c.G.Own.Signal(unix.SIGKILL)
	}
	r.Left += c.gone(c.two)
	r.Members = c.one.Count() + c.two.Count()
	return r
}

func (c *Cell) gone(s *Server) int {
	c.T.Helper()
	if c.Forgets {
		s.UntilDead(escape.Patience)
		escape.SweepUntil(func() bool {
			_, err := os.Stat(s.Group)
			return errors.Is(err, fs.ErrNotExist)
		}, func() { c.Run("sweep") })
	}
	return s.Gone(c.T)
}

// Modes are those of the zoo without the attacks on the parent: that is the gateway here,
// which the test talks to.
func Modes(t *testing.T, p escape.Programs) []escape.Mode {
	return slices.DeleteFunc(p.Modes(t), func(m escape.Mode) bool { return strings.Contains(m.Name, "-parent") && m.Name != "move-parent" })
}

// FillTable prints the table of modes × ends.
func FillTable(t *testing.T, title string, b escape.Backend, modes []escape.Mode, ends []End,
	cell func(*testing.T, escape.Mode, End) escape.Result) {
	table := escape.Table{Title: title, Name: strings.ReplaceAll(title, " ", "-"), Backend: b, Modes: modes}
	byName := map[string]End{}
	for _, e := range ends {
		table.Ends = append(table.Ends, escape.End{Name: e.Name})
		byName[e.Name] = e
	}
	table.FillWith(t, func(t *testing.T, m escape.Mode, e escape.End) escape.Result { return cell(t, m, byName[e.Name]) })
}
