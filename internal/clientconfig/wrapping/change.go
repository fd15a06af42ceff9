// SPDX-License-Identifier: Apache-2.0

package wrapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// A Change is the result for a file.
type Change struct {
	Data    []byte
	Backup  []byte   // what to keep as the content without mcpscope
	Servers []Server // as they were
	After   []Server // as they are then
	Changed []bool   // which of them are different now

	edits []splice.Edit
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

// Wrap puts the runner in front of the wanted servers that can be wrapped, and changes the prefix of those
// that are wrapped where it differs. backup is the existing backup, or nil. It is kept as long as a server is
// wrapped: only the backup contains the original text.
func (r Reader) Wrap(d *splice.Document, backup []byte, runner Runner, wanted func(string) bool) *Change {
	prefix := func(_ int, s *Server) []string {
		if !wanted(s.Name) || s.IsWrapped() && r.Shared != "" {
			return nil
		}
		words, err := r.WrappedPrefix(s, runner)
		if err != nil { // findOwn has read the flags of a wrapped server
			return nil
		}
		return words
	}
	c := r.wrap(d, prefix)
	// The text of a person, without mcpscope, is in the file until the first server is wrapped.
	isFirst := backup == nil || !AnyWrapped(c.Servers)
	if isFirst {
		c.Backup = d.Data
		return c
	}
	c.Backup = backup
	origin := r.origin(d, backup)
	if origin != nil {
		c.Backup = origin.Data // with the changes since
	}
	return c
}

// Unwrap takes the prefix away. A file that is still what Wrap has made of the backup becomes the backup, to
// the byte, but for servers that were wrapped there: a person has done that. Without a backup, and when no
// server is wrapped any more, it leaves none.
func (r Reader) Unwrap(d *splice.Document, backup []byte, wanted func(string) bool) *Change {
	c := r.unwrapAll(d, func(_ int, s *Server) bool { return wanted(s.Name) })
	c.Backup = backup
	if backup == nil {
		c.Backup = c.Data
	}
	old := r.origin(d, backup)
	if c.Count() == 0 {
		return c
	}
	if old == nil {
		if r.IsSpent(d.Format, backup, c.Data) {
			c.Backup = c.Data
		}
		return c
	}
	restored := r.wrap(old, func(i int, _ *Server) []string {
		if c.Changed[i] {
			return nil
		}
		return c.Servers[i].Prefix()
	})
	again, err := splice.Parse(d.Format, restored.Data)
	if err != nil {
		return c
	}
	byHand := r.unwrapAll(again, func(i int, _ *Server) bool { return c.Changed[i] })
	for i, s := range byHand.After {
		if c.Changed[i] && s.IsWrapped() {
			return c
		}
	}
	c.Data = byHand.Data
	c.Backup = old.Data
	if !AnyWrapped(byHand.After) {
		c.Backup = c.Data
	}
	return c
}

// IsSpent reports whether a backup has nothing any more that a person could miss in the text now, which a
// client writes anew again and again: each of its servers has the same command and variables there, without
// mcpscope, and neither has comments, which a client may have dropped. All else in the backup is only older.
func (r Reader) IsSpent(format splice.Format, backup, now []byte) bool {
	if format != splice.JSON || !json.Valid(backup) || !json.Valid(now) {
		return false
	}
	before, err := splice.Parse(format, backup)
	if err != nil {
		return false
	}
	after, err := splice.Parse(format, now)
	if err != nil {
		return false
	}
	servers := r.Servers(after)
	isMissing := func(old Server) bool {
		return !slices.ContainsFunc(servers, func(s Server) bool { return isSameServer(old, s) })
	}
	return !AnyWrapped(servers) && !slices.ContainsFunc(r.Servers(before), isMissing)
}

func isSameServer(a, b Server) bool {
	return a.Name == b.Name && slices.Equal(a.Argv, b.Argv) && maps.Equal(a.Env, b.Env)
}

// unwrapAll takes the prefix of the wrapped servers away that are meant.
func (r Reader) unwrapAll(d *splice.Document, isMeant func(i int, s *Server) bool) *Change {
	return r.change(d,
		func(i int, s *Server) bool { return s.IsWrapped() && isMeant(i, s) },
		func(_ int, s *Server) []splice.Edit { return unwrap(d, s) },
		func(before, after *Server) bool { return slices.Equal(before.Own(), after.Argv) })
}

// origin parses the content that d would be without mcpscope: the backup or, if d was changed in one place
// since, the backup with that change. It is nil if d cannot be made of it by a wrap.
func (r Reader) origin(d *splice.Document, backup []byte) *splice.Document {
	if backup == nil || !AnyWrapped(r.Servers(d)) {
		return nil
	}
	old, err := splice.Parse(d.Format, backup)
	if err != nil {
		return nil
	}
	again := r.wrapLike(old, d)
	if bytes.Equal(again.Data, d.Data) {
		return old
	}
	changed, err := splice.Parse(d.Format, splice.Transplant(backup, again.edits, again.Data, d.Data))
	if err != nil || r.wrapsMore(changed, old) {
		return nil
	}
	again = r.wrapLike(changed, d)
	if !bytes.Equal(again.Data, d.Data) {
		return nil
	}
	return changed
}

// wrapsMore reports whether a server is wrapped in a document that is not wrapped in the old one. A change
// of many servers brings the prefixes of wrap with it.
func (r Reader) wrapsMore(d, old *splice.Document) bool {
	byHand := map[string]bool{}
	for _, s := range r.Servers(old) {
		byHand[s.Name] = s.IsWrapped()
	}
	return slices.ContainsFunc(r.Servers(d), func(s Server) bool { return s.IsWrapped() && !byHand[s.Name] })
}

// wrapLike gives each server of old the prefix that the server of the same name has in d.
func (r Reader) wrapLike(old, d *splice.Document) *Change {
	prefixes := map[string][][]string{} // of servers of one name, in the order of the file
	for _, s := range r.Servers(d) {
		prefixes[s.Name] = append(prefixes[s.Name], s.Prefix())
	}
	prefix := make([][]string, 0)
	for _, s := range r.Servers(old) {
		var words []string
		ofName := prefixes[s.Name]
		if len(ofName) > 0 {
			words = ofName[0]
			prefixes[s.Name] = ofName[1:]
		}
		prefix = append(prefix, words)
	}
	return r.wrap(old, func(i int, _ *Server) []string { return prefix[i] })
}

// AnyWrapped reports whether the command of one of the servers begins with mcpscope.
func AnyWrapped(servers []Server) bool {
	return slices.ContainsFunc(servers, func(s Server) bool { return s.IsWrapped() })
}

// wrap gives servers a prefix. Those for which prefix returns nothing, or the present prefix, do not change.
func (r Reader) wrap(d *splice.Document, prefix func(i int, s *Server) []string) *Change {
	isMeant := func(i int, s *Server) bool {
		words := prefix(i, s)
		return len(words) > 0 && !slices.Equal(words, s.Prefix())
	}
	edit := func(i int, s *Server) []splice.Edit {
		if s.IsWrapped() {
			return rewrap(d, s, prefix(i, s))
		}
		return wrap(d, s, prefix(i, s))
	}
	return r.change(d, isMeant, edit, func(before, after *Server) bool {
		return after.startsRunner() && slices.Equal(before.Own(), after.Own())
	})
}

// change edits all servers that are meant, or none if that would change anything else. isRight compares a
// server before and after its change.
func (r Reader) change(
	d *splice.Document,
	isMeant func(i int, s *Server) bool,
	edit func(i int, s *Server) []splice.Edit,
	isRight func(before, after *Server) bool,
) *Change {
	c := &Change{Servers: r.Servers(d)}
	var edits []splice.Edit
	for i := range c.Servers {
		s := &c.Servers[i]
		c.Changed = append(c.Changed, s.Reason == "" && isMeant(i, s))
		if c.Changed[i] {
			edits = append(edits, edit(i, s)...)
		}
	}
	c.edits = edits
	err := c.apply(r, d, isRight)
	if err == nil {
		return c
	}
	c.After = c.Servers
	for i := range c.Servers {
		if c.Changed[i] {
			c.Servers[i].State = NotEditable
			c.Servers[i].Reason = "it cannot be changed without changing something else: " + err.Error()
		}
	}
	c.Data = d.Data
	c.Changed = make([]bool, len(c.Servers))
	return c
}

// apply makes the text of the edits, and checks it.
func (c *Change) apply(r Reader, d *splice.Document, isRight func(before, after *Server) bool) error {
	data, err := splice.Apply(d.Data, c.edits)
	if err != nil {
		return err
	}
	c.Data = data
	c.After, err = r.onlyMeant(d, c, isRight)
	return err
}

func wrap(d *splice.Document, s *Server, prefix []string) []splice.Edit {
	raws := quoteAll(prefix)
	if s.isList() {
		return []splice.Edit{d.Insert(s.args, first(s.args), raws)}
	}
	replace := d.Replace(s.command, raws[0])
	raws = append(raws[1:], d.RawIn(s.args, s.command))
	if s.args == nil {
		return []splice.Edit{replace, d.AddList(s.owner, s.key, "args", raws)}
	}
	return []splice.Edit{replace, d.Insert(s.args, first(s.args), raws)}
}

// first returns the first item of a list, or nil.
func first(list *splice.Node) *splice.Node {
	if len(list.Items) == 0 {
		return nil
	}
	return list.Items[0]
}

// rewrap changes the words of a prefix that differ. words has as many as the old one, with others in their
// places, or some more behind "run".
func rewrap(d *splice.Document, s *Server, words []string) []splice.Edit {
	nodes := s.words()
	var edits []splice.Edit
	more := len(words) - s.prefix
	if more > 0 {
		edits = append(edits, d.Insert(s.args, nodes[2], quoteAll(words[2:2+more])))
		words = slices.Delete(slices.Clone(words), 2, 2+more)
	}
	for i, word := range words {
		if word != s.Argv[i] {
			edits = append(edits, d.Replace(nodes[i], splice.Quote(word)))
		}
	}
	return edits
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
	command := s.args.Items[s.inner]
	raw := splice.Quote(command.Text) // of a number, in its original form
	if command.Kind == splice.Text && !command.Fixed {
		raw = d.Raw(command)
	}
	return []splice.Edit{d.Replace(s.command, raw), d.RemoveFirst(s.args, s.inner+1)}
}

// onlyMeant parses the changed file again, and checks that nothing else has changed. It returns the servers.
func (r Reader) onlyMeant(
	old *splice.Document, c *Change, isRight func(before, after *Server) bool,
) (servers []Server, err error) {
	d, err := splice.Parse(old.Format, c.Data)
	if err != nil {
		return nil, fmt.Errorf("the result %w", err)
	}
	servers = r.Servers(d)
	if len(servers) != len(c.Servers) {
		return nil, errors.New("the result has other servers")
	}
	meant := map[*splice.Node]*Server{}
	for i := range c.Servers {
		if !c.Changed[i] {
			continue
		}
		before := &c.Servers[i]
		if !isRight(before, &servers[i]) {
			return nil, errors.New("the result has another command")
		}
		meant[before.owner] = before
	}
	if !same(old.Root, d.Root, meant) {
		return nil, errors.New("the result has other settings")
	}
	return servers, nil
}

// same compares all but the commands that were meant.
func same(a, b *splice.Node, meant map[*splice.Node]*Server) bool {
	if a.Kind != b.Kind || a.Text != b.Text {
		return false
	}
	membersOfA := a.Members
	membersOfB := b.Members
	s, ok := meant[a]
	if ok {
		membersOfA = s.otherMembers(a)
		membersOfB = s.otherMembers(b)
	}
	sameMember := func(m, n splice.Member) bool { return m.Name == n.Name && same(m.Value, n.Value, meant) }
	if !slices.EqualFunc(membersOfA, membersOfB, sameMember) {
		return false
	}
	sameItem := func(m, n *splice.Node) bool { return same(m, n, meant) }
	return slices.EqualFunc(a.Items, b.Items, sameItem)
}

// otherMembers returns the members of a server's map that are not its command.
func (s *Server) otherMembers(owner *splice.Node) []splice.Member {
	return slices.DeleteFunc(slices.Clone(owner.Members), func(m splice.Member) bool {
		return m.Name == s.key || m.Name == "args" && !s.isList()
	})
}
