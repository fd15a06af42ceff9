// SPDX-License-Identifier: Apache-2.0

package wrapping

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpscope/mcpscope/internal/splice"
)

// onlyMeant reads the changed file again: what was meant has changed as it should, and nothing else has.
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
	if a.Kind != b.Kind || a.Text != b.Text || len(a.Items) != len(b.Items) {
		return false
	}
	x, y := a.Members, b.Members
	if s := meant[a]; s != nil {
		ours := func(m splice.Member) bool {
			return m.Name == s.key || m.Name == "args" && s.command.Kind != splice.List
		}
		x, y = slices.DeleteFunc(slices.Clone(x), ours), slices.DeleteFunc(slices.Clone(y), ours)
	}
	return slices.EqualFunc(x, y, func(m, n splice.Member) bool { return m.Name == n.Name && same(m.Value, n.Value, meant) }) &&
		slices.EqualFunc(a.Items, b.Items, func(m, n *splice.Node) bool { return same(m, n, meant) })
}

// returns unwraps what was wrapped.
func (r Reader) returns(old *splice.Document, c *Change) error {
	d, err := splice.Parse(old.Format, c.Data)
	if err != nil {
		return err
	}
	servers := r.Servers(d)
	back := &Change{Servers: servers, Changed: c.Changed}
	err = back.make(d, func(s *Server) ([]splice.Edit, error) {
		if s.State != Wrapped || s.Reason != "" {
			return nil, errors.New("it would not be known as wrapped")
		}
		return unwrap(d, s)
	})
	if err == nil && !bytes.Equal(back.Data, old.Data) {
		err = errors.New("it would not come back as it was")
	}
	return err
}
