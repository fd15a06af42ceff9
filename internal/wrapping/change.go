// SPDX-License-Identifier: Apache-2.0

package wrapping

import (
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/splice"
)

// A Change is what became of a file.
type Change struct {
	Data    []byte
	Servers []Server // as they were
	Changed []bool   // which of them are different now
}

// Any tells whether the file is different.
func (c *Change) Any() bool { return slices.Contains(c.Changed, true) }

// Wrap puts program in front of the servers that are wanted and can be wrapped.
func (r Reader) Wrap(d *splice.Document, program string, wanted func(name string) bool) (*Change, error) {
	return r.change(d, Bare, wanted, func(s *Server) ([]splice.Edit, error) { return wrap(d, s, program), nil },
		func(old *Change) error { return r.returns(d, old) })
}

// Unwrap takes the prefix away.
func (r Reader) Unwrap(d *splice.Document, wanted func(name string) bool) (*Change, error) {
	return r.change(d, Wrapped, wanted, func(s *Server) ([]splice.Edit, error) { return unwrap(d, s) },
		func(*Change) error { return nil })
}

// manyServers are more than are tried one by one: each takes a reading of the file.
const manyServers = 100

type editor func(*Server) ([]splice.Edit, error)

// change edits all servers at once. If that does not do, those that do alone are edited.
func (r Reader) change(d *splice.Document, from State, wanted func(string) bool, edit editor, also func(*Change) error) (*Change, error) {
	servers := r.Servers(d)
	meant := make([]bool, len(servers))
	for i, s := range servers {
		meant[i] = s.State == from && s.Reason == "" && wanted(s.Name)
	}
	attempt := func(meant []bool) (*Change, error) {
		c := &Change{Servers: servers, Changed: meant}
		err := c.make(d, edit)
		if err == nil {
			err = r.onlyMeant(d, c)
		}
		if err == nil {
			err = also(c)
		}
		return c, err
	}
	c, err := attempt(meant)
	if err == nil || len(servers) > manyServers {
		return c, err
	}
	for i := range servers {
		if !meant[i] {
			continue
		}
		alone := make([]bool, len(servers))
		alone[i] = true
		if _, err := attempt(alone); err != nil {
			meant[i] = false
			servers[i].State, servers[i].Reason = Left, "it cannot be changed without changing something else: "+err.Error()
		}
	}
	return attempt(meant)
}

func (c *Change) make(d *splice.Document, edit editor) error {
	var edits []splice.Edit
	for i := range c.Servers {
		if !c.Changed[i] {
			continue
		}
		more, err := edit(&c.Servers[i])
		if err != nil {
			return err
		}
		edits = append(edits, more...)
	}
	var err error
	c.Data, err = splice.Apply(d.Data, edits)
	return err
}

// Prefix is what stands before the server's own command, without what is said about its layout.
func (s *Server) Prefix(program string) []string {
	prefix := []string{program, run}
	if n := s.Label(); n != "" {
		prefix = append(prefix, "--name", n)
	}
	return append(prefix, end)
}

// Label is the name that its group can have, or "" where the file has none.
func (s *Server) Label() string {
	if s.unnamed {
		return ""
	}
	return name.Fit(s.Name)
}

func wrap(d *splice.Document, s *Server, program string) []splice.Edit {
	prefix := s.Prefix(program)
	if s.command.Kind == splice.List {
		return []splice.Edit{d.Prepend(s.command, quoteAll(d, prefix))}
	}
	var notes []string
	if s.args == nil {
		notes = append(notes, hadNoArgs)
	}
	own := d.Raw(s.command)
	if inBlock := s.args != nil && s.args.Block; s.command.Plain && !inBlock && !splice.FlowSafe(own) {
		own, notes = splice.Quote(splice.JSON, s.command.Text), append(notes, wasUnquoted)
	}
	if len(notes) > 0 {
		prefix = slices.Insert(prefix, len(prefix)-1, flag+strings.Join(notes, ","))
	}
	raws := append(quoteAll(d, prefix[1:]), own)
	edits := []splice.Edit{d.Replace(s.command, splice.Quote(d.Format, program))}
	if s.args == nil {
		return append(edits, d.AddList(s.owner, s.key, "args", raws))
	}
	return append(edits, d.Prepend(s.args, raws))
}

func quoteAll(d *splice.Document, words []string) []string {
	var raws []string
	for _, w := range words {
		raws = append(raws, splice.Quote(d.Format, w))
	}
	return raws
}

func unwrap(d *splice.Document, s *Server) ([]splice.Edit, error) {
	if s.command.Kind == splice.List {
		e, err := d.RemoveFirst(s.command, s.inner)
		return []splice.Edit{e}, err
	}
	own, notes := s.args.Items[s.inner], layout(s.args.Items[:s.inner])
	raw := ""
	switch {
	case slices.Contains(notes, wasUnquoted):
		raw = own.Text
	case own.End == 0: // a number, as somebody wrote it
		raw = splice.Quote(d.Format, own.Text)
	default:
		raw = d.Raw(own)
	}
	edits := []splice.Edit{d.Replace(s.command, raw)}
	if slices.Contains(notes, hadNoArgs) && s.inner+1 == len(s.args.Items) {
		if e, err := d.RemoveList(s.owner, s.key, "args"); err == nil {
			return append(edits, e), nil
		}
	}
	e, err := d.RemoveFirst(s.args, s.inner+1)
	return append(edits, e), err
}

// layout is what the prefix says about what it took the place of.
func layout(prefix []*splice.Node) (notes []string) {
	for _, item := range prefix {
		if list, ok := strings.CutPrefix(item.Text, flag); ok {
			notes = append(notes, strings.Split(list, ",")...)
		}
	}
	return notes
}
