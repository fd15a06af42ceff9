// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package protocol

import (
	"bytes"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// FactsOf returns the facts of a server that a raw launcher has started. dir is the name of its group's
// directory. The facts have neither the client's unit nor the project: a helper adds them.
func FactsOf(s *page.Started, dir string) Facts {
	f := Facts{Version: ProtocolVersion, Policy: policy.Default(), Started: s.At}
	f.Policy.EOFGrace = time.Duration(s.Policy.EOFGrace)
	f.Policy.TermGrace = time.Duration(s.Policy.TermGrace)
	f.Policy.OnClientDeath = clientDeathOf(s.Policy.OnClientDeath)
	f.Policy.IdleFreeze = time.Duration(s.Policy.IdleFreeze)
	f.Policy.IdleTimeout = time.Duration(s.Policy.IdleTimeout)
	f.Name = nameIn(dir)
	f.Client = ClientFacts{PID: int(s.Client.PID), Start: s.Client.Start, Name: textOf(s.Client.Name[:])}
	f.Launcher = Identity{PID: int(s.Launcher.PID), Start: s.Launcher.Start, Namespace: s.Namespace}
	return f
}

// clientDeathOf is the default for a value that a page can't have: it may be forged.
func clientDeathOf(death page.ClientDeath) policy.ClientDeath {
	switch death {
	case page.StopOnClientDeath:
		return policy.StopOnClientDeath
	case page.IgnoreClientDeath:
		return policy.IgnoreClientDeath
	}
	return policy.AutoOnClientDeath
}

// ConfigOn is the configuration on a page, as main has encoded it. Raw code that starts a server by its flags
// writes the facts of that alone.
func ConfigOn(p *page.Page) (*Config, error) {
	if !p.Plan.IsByMain {
		c := ConfigOf(&p.Started, p.Directory())
		c.Group.Scope = p.Plan.Place.InScope
		return c, nil
	}
	text, err := p.Config()
	if err != nil {
		return nil, err
	}
	c := &Config{}
	if err := Decode(text, c); err != nil {
		return nil, err
	}
	return c, nil
}

// ConfigOf is the configuration of a server that a raw launcher has started.
func ConfigOf(s *page.Started, dir string) *Config {
	c := NewConfig()
	c.Facts = FactsOf(s, dir)
	isManaged := s.From != page.CgroupDirectory
	c.Group = Placed{ID: names.IDOf(dir), Dir: dir, Backend: names.Cgroup, Managed: isManaged}
	switch s.From {
	case page.SystemScope:
		c.Group.Backend = names.SystemdSystem
	case page.UserScope:
		c.Group.Backend = names.SystemdUser
	}
	c.Position = textOf(s.Position[:])
	c.Output.Stderr = StderrInherit
	c.Replace = s.Replace
	c.Output.Quiet = s.Quiet
	c.Output.Verbose = s.Verbose
	c.Side = ClientSide{
		File: File(s.Side.Stdin), Output: File(s.Side.Stdout),
		Conveyed: s.Side.Conveyed, Socket: s.Side.Socket,
	}
	return c
}

// nameIn is the name of the server in the name of a directory: see names.DirectoryName.
func nameIn(dir string) string {
	named := strings.TrimSuffix(strings.TrimPrefix(dir, names.GroupPrefix), names.ScopeSuffix)
	return strings.TrimSuffix(named, "-"+names.IDOf(dir))
}

// textOf is a text that ends with 0, or with its array.
func textOf(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
