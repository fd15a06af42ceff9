// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/name"
)

// recipe is how a client starts a server. Two servers with the same recipe are the same one, started twice.
type recipe struct {
	argv []string
	dir  string
	// variables are those in which its environment differs from that of its gateway.
	variables map[string]string
}

// isPassing is true for variables that differ from start to start of the same server: a shell's own, and the
// ids of conversations that agents give to their servers.
func isPassing(variable string) bool {
	switch variable {
	case "_", "PWD", "OLDPWD", "SHLVL", "TRACEPARENT", "TRACESTATE":
		return true
	}
	ids := []string{"SESSION_ID", "THREAD_ID", "CONVERSATION_ID"}
	return slices.ContainsFunc(ids, func(id string) bool { return strings.HasSuffix(variable, id) })
}

// difference has the variables of env that base does not have, or has with another value.
func difference(env, base []string) map[string]string {
	differing := map[string]string{}
	for _, entry := range env {
		key, value, _ := strings.Cut(entry, "=")
		if !isPassing(key) && !slices.Contains(base, entry) {
			differing[key] = value
		}
	}
	return differing
}

// number identifies the recipe among those of a gateway. It is never 0. It is no secret: a process that can
// read it can read the environment, too.
func (r recipe) number() uint64 {
	h := fnv.New64a()
	write := func(text string) {
		_, _ = h.Write([]byte(text)) // it can't fail
		_, _ = h.Write([]byte{0})
	}
	for _, arg := range r.argv {
		write(arg)
	}
	write("")
	write(r.dir)
	for _, key := range slices.Sorted(maps.Keys(r.variables)) {
		write(key + "=" + r.variables[key])
	}
	return max(h.Sum64(), 1)
}

// serverName names a server as its configuration does. Where no single name is left the command names the
// server.
func (r Rules) serverName(made recipe, gateway string) string {
	if entry := r.entryOf(made, gateway); entry != nil {
		return entry.Name
	}
	return name.Derive(made.argv)
}

// entryOf returns the entry of a server, or nil where no single name is left. Those of the gateway's own
// client come first; of several entries the variables decide. An entry of another client is that of the
// server only if it sets the very variables in which the server differs from the gateway.
func (r Rules) entryOf(made recipe, gateway string) *Configured {
	derived := name.Derive(made.argv)
	entries := r.namedEntries(func(c *Configured) bool { return c.IsStartedBy(made.argv) })
	if len(entries) == 0 { // a client starts a program in a runner's cache by another command line
		entries = r.namedEntries(func(c *Configured) bool { return name.Derive(c.Argv) == derived })
	}
	client := name.ClientOf(gateway)
	isOfClient := func(c *Configured) bool { return c.Client != "" && c.Client == client }
	isRefuted := func(c *Configured) bool {
		return len(c.Env) != len(made.variables) || !c.sets(made.variables)
	}
	if slices.ContainsFunc(entries, isOfClient) {
		isRefuted = func(c *Configured) bool { return !isOfClient(c) || !c.sets(made.variables) }
	}
	entries = slices.DeleteFunc(entries, isRefuted)
	return mostSpecific(entries)
}

// namedEntries returns the configured servers with a name that match.
func (r Rules) namedEntries(matches func(*Configured) bool) (found []*Configured) {
	for i := range r.Configured {
		c := &r.Configured[i]
		if c.Name != "" && matches(c) {
			found = append(found, c)
		}
	}
	return found
}

// sets reports whether a server with these variables can have got them from the entry.
func (c *Configured) sets(variables map[string]string) bool {
	for key, text := range c.Env {
		value, isSet := variables[key]
		if !isSet || !canBecome(text, value) {
			return false
		}
	}
	return true
}

// mostSpecific returns the first of the entries that set the most variables, nil if they have several names.
func mostSpecific(entries []*Configured) (found *Configured) {
	most := -1
	for _, c := range entries {
		switch {
		case len(c.Env) > most:
			most = len(c.Env)
			found = c
		case len(c.Env) == most && found != nil && c.Name != found.Name:
			found = nil
		}
	}
	return found
}
