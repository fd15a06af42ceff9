// SPDX-License-Identifier: Apache-2.0

package wrapping

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// A Change is the result for a file.
type Change struct {
	Data    []byte
	Backup  []byte   // what to keep as the content without mcpscope
	Servers []Server // as they were
	Changed []bool   // which of them are different now
}

// Count is how many servers are different.
func (c *Change) Count() (n int) {
	for _, changed := range c.Changed {
		if changed {
			n++
		}
	}
	return n
}

// Wrap puts runner (a program, "run" and flags) in front of the wanted servers that can be wrapped. backup is
// the existing backup, or nil. It is kept as long as a server is wrapped: only the backup contains the
// original text.
func (r Reader) Wrap(d *splice.Document, backup []byte, runner []string, wanted func(string) bool) *Change {
	c := r.wrap(d, runner, func(_ int, s *Server) bool { return wanted(s.Name) })
	if c.Backup = backup; backup == nil || runnerOf(c.Servers) == nil {
		c.Backup = d.Data
	}
	return c
}

// Unwrap takes the prefix away. A file that is still what Wrap has made of the backup becomes the backup, to
// the byte.
func (r Reader) Unwrap(d *splice.Document, backup []byte, wanted func(string) bool) *Change {
	c := r.change(d, Wrapped, func(_ int, s *Server) bool { return wanted(s.Name) },
		func(s *Server) []splice.Edit { return unwrap(d, s) })
	if c.Backup = backup; backup == nil {
		c.Backup = d.Data
	}
	if old := r.origin(d, backup); old != nil && c.Count() > 0 {
		c.Data = r.wrap(old, runnerOf(c.Servers), func(i int, _ *Server) bool {
			return c.Servers[i].State == Wrapped && !c.Changed[i]
		}).Data
	}
	return c
}

// origin parses a backup from which d differs in wrapped servers and in nothing else. For any other it is
// nil.
func (r Reader) origin(d *splice.Document, backup []byte) *splice.Document {
	servers := r.Servers(d)
	runner := runnerOf(servers)
	if runner == nil || backup == nil {
		return nil
	}
	old, err := splice.Parse(d.Format, backup)
	if err != nil || runnerOf(r.Servers(old)) != nil {
		return nil
	}
	again := r.wrap(old, runner, func(i int, _ *Server) bool {
		return i < len(servers) && servers[i].State == Wrapped
	})
	if !bytes.Equal(again.Data, d.Data) {
		return nil
	}
	return old
}

// runnerOf returns the runner of the first wrapped server, or nil.
func runnerOf(servers []Server) []string {
	for _, s := range servers {
		if s.State == Wrapped {
			return s.Argv[:max(s.prefix-len(s.Prefix(nil)), 2)]
		}
	}
	return nil
}

type (
	selection func(i int, s *Server) bool
	editor    func(*Server) []splice.Edit
)

func (r Reader) wrap(d *splice.Document, runner []string, meant selection) *Change {
	return r.change(d, Bare, meant, func(s *Server) []splice.Edit { return wrap(d, s, runner) })
}

// change edits all servers that are meant, or none if that would change anything else.
func (r Reader) change(d *splice.Document, from State, meant selection, edit editor) *Change {
	c := &Change{Servers: r.Servers(d)}
	var edits []splice.Edit
	for i := range c.Servers {
		s := &c.Servers[i]
		c.Changed = append(c.Changed, s.State == from && s.Reason == "" && meant(i, s))
		if c.Changed[i] {
			edits = append(edits, edit(s)...)
		}
	}
	var err error
	if c.Data, err = splice.Apply(d.Data, edits); err == nil {
		err = r.onlyMeant(d, c)
	}
	if err == nil {
		return c
	}
	for i := range c.Servers {
		if c.Changed[i] {
			c.Servers[i].State = NotEditable
			c.Servers[i].Reason = "it cannot be changed without changing something else: " + err.Error()
		}
	}
	c.Data, c.Changed = d.Data, make([]bool, len(c.Servers))
	return c
}

func wrap(d *splice.Document, s *Server, runner []string) []splice.Edit {
	raws := quoteAll(s.Prefix(runner))
	if s.isList() {
		return []splice.Edit{d.Prepend(s.args, raws)}
	}
	replace := d.Replace(s.command, raws[0])
	raws = append(raws[1:], d.Raw(s.command))
	if s.args == nil {
		return []splice.Edit{replace, d.AddList(s.owner, s.key, "args", raws)}
	}
	return []splice.Edit{replace, d.Prepend(s.args, raws)}
}

func quoteAll(words []string) []string {
	var raws []string
	for _, w := range words {
		raws = append(raws, splice.Quote(w))
	}
	return raws
}

func unwrap(d *splice.Document, s *Server) []splice.Edit {
	if s.isList() {
		return []splice.Edit{d.RemoveFirst(s.args, s.inner)}
	}
	own := s.args.Items[s.inner]
	raw := splice.Quote(own.Text) // of a number, in its original form
	if own.Kind == splice.Text {
		raw = d.Raw(own)
	}
	return []splice.Edit{d.Replace(s.command, raw), d.RemoveFirst(s.args, s.inner+1)}
}

// onlyMeant parses the changed file again, and checks that nothing else has changed.
func (r Reader) onlyMeant(old *splice.Document, c *Change) error {
	d, err := splice.Parse(old.Format, c.Data)
	if err != nil {
		return fmt.Errorf("the result %w", err)
	}
	servers := r.Servers(d)
	if len(servers) != len(c.Servers) {
		return errors.New("the result has other servers")
	}
	meant := map[*splice.Node]*Server{}
	for i := range c.Servers {
		before, after := &c.Servers[i], &servers[i]
		if !c.Changed[i] {
			continue
		}
		right := slices.Equal(before.Own(), after.Argv)
		if before.State == Bare {
			right = after.State == Wrapped && slices.Equal(before.Argv, after.Own())
		}
		if !right {
			return errors.New("the result has another command")
		}
		meant[before.owner] = before
	}
	if !same(old.Root, d.Root, meant) {
		return errors.New("the result has other settings")
	}
	return nil
}

// same compares all but the commands that were meant.
func same(a, b *splice.Node, meant map[*splice.Node]*Server) bool {
	if a.Kind != b.Kind || a.Text != b.Text {
		return false
	}
	x, y := a.Members, b.Members
	if s := meant[a]; s != nil {
		ours := func(m splice.Member) bool {
			return m.Name == s.key || m.Name == "args" && !s.isList()
		}
		x, y = slices.DeleteFunc(slices.Clone(x), ours), slices.DeleteFunc(slices.Clone(y), ours)
	}
	sameMember := func(m, n splice.Member) bool { return m.Name == n.Name && same(m.Value, n.Value, meant) }
	sameItem := func(m, n *splice.Node) bool { return same(m, n, meant) }
	return slices.EqualFunc(x, y, sameMember) && slices.EqualFunc(a.Items, b.Items, sameItem)
}
