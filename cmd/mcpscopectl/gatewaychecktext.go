// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/flags"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

func (c *gatewayCheck) print() {
	gatewayName := name.Derive(c.command)
	c.printHost()
	c.printRules()
	c.printCommand()
	c.printHeading("configured servers, if it starts them with pipes:")
	for i := range c.rules.Configured {
		server := &c.rules.Configured[i]
		c.printForeseen(c.rules.ForeseeEntry(server, gatewayName), server.Argv)
	}
	for _, server := range c.wrapped {
		f := c.rules.Foresee(server.Argv, gatewayName, nil)
		f.Name = server.Name
		c.printForeseen(f, server.Argv)
	}
	if len(c.rules.Configured)+len(c.wrapped) == 0 {
		c.printLine("none", "mcpscope wrap --list prints the files that are read")
	}
}

// printCommand describes the command: as a server if a rule makes it one, otherwise as the client of others.
func (c *gatewayCheck) printCommand() {
	f := c.rules.ForeseeCommand(c.command)
	servers := "its servers are contained"
	if !c.inside && !c.place.Usable {
		servers = "its servers are not contained"
	}
	if f.Verdict != gateway.MayBeServer {
		c.printHeading("this command, if a gateway starts it with pipes:")
		c.printForeseen(f, c.command)
		c.printLine("", "if it is the gateway: "+servers)
		return
	}
	c.printHeading("this command:")
	c.printLine(f.Name, clientconfig.WithoutArguments(c.command)+" is the client: "+servers)
	c.printLine("", "a server that it forks and does not execute is not seen: "+
		"put mcpscope run in front of a command for it")
	c.printLine("", "as a server of another gateway, it is known once MCP is written to it, "+
		"or from its start with --match")
}

// printHost prints whether servers can be contained, and the restrictions that apply then.
func (c *gatewayCheck) printHost() {
	switch {
	case c.inServer:
		const text = "servers are in the group of the mcpscope run around this one, and get no other"
		fmt.Fprintln(c.out, text)
	case c.inside:
		outer := fmt.Sprintf("%s[%d]", c.outer.Name, c.outer.PID)
		const text = "servers are contained by the gateway around this one, %s, and by its rules\n"
		fmt.Fprintf(c.out, text, cli.OneLine(outer))
	case !c.place.Usable:
		fmt.Fprintf(c.out, "servers cannot be contained here: %s\n", cli.ErrorText(c.place.Reason))
	default:
		meaning := host.Meaning(c.place.Name)
		fmt.Fprintf(c.out, "servers can be contained here, by %s: %s\n", c.place.Name, meaning)
		if c.place.Reason != "" {
			fmt.Fprintf(c.out, "  because %s\n", cli.ErrorText(c.place.Reason))
		}
	}
	if c.place.Fix != "" {
		fmt.Fprintf(c.out, "  → %s\n", cli.OneLine(c.place.Fix))
	}
	if strings.Contains(c.place.Fix, "Delegate=yes") { // which units writes
		const install = "sudo mcpscope units --unit UNIT --install --now"
		fmt.Fprintf(c.out, "  → or, for a gateway that is a system unit: %s\n", install)
	}
	c.printSession()
	if _, err := programs.Lookup(c.command[0]); err != nil {
		c.printLine("command", cli.ErrorLine(err))
	}
	if c.conditions.NoNewPrivs {
		c.printLine("privileges", "without root it sets no_new_privs: sudo does not work below it")
	}
	if c.conditions.Blind {
		c.printLine("yama", "unread input and the end of stdin are seen on pipes, not on sockets")
	}
	if c.unread != nil && (c.inside || c.place.Usable) {
		c.printLine("configurations", "cannot be read: "+cli.ErrorLine(c.unread))
	}
	for _, problem := range c.files.Problems {
		c.printLine("settings", cli.ErrorLine(problem))
	}
}

// printSession prints whether the wanted session can be made.
func (c *gatewayCheck) printSession() {
	if !c.wantsSession() || !c.inside && !c.place.Usable {
		return
	}
	limits := strings.Join(c.sessionLimits(), " and ")
	noSession := c.noSession()
	with := ""
	if limits != "" {
		with = ", with " + limits
	}
	switch {
	case c.inside:
		c.printLine("session", "that of the gateway around this one, if it has one: these flags mean nothing")
	case noSession == "":
		c.printLine("session", "a group of this command and its servers"+with)
	case c.values.Require:
		c.printLine("session", "none, so --require starts nothing: "+noSession)
	default:
		c.printLine("session", "none, so the command runs without "+cmp.Or(limits, "one")+": "+noSession)
	}
}

// printRules prints the patterns, and the flag or the file that they are from.
func (c *gatewayCheck) printRules() {
	fromFiles := c.files.ForBelowGateway("")
	for _, rule := range []struct {
		key      string
		patterns []string
	}{{"match", c.rules.Match}, {"except", c.rules.Except}} {
		origin := flags.Dashes(rule.key)
		if !c.values.Given(rule.key) {
			v := fromFiles[rule.key]
			origin = fmt.Sprintf("%s:%d", v.File, v.Line)
		}
		for _, pattern := range rule.patterns {
			c.printLine(rule.key, fmt.Sprintf("%q (%s)", pattern, origin))
		}
	}
}

// printForeseen prints no argument of the command, which may be a secret.
func (c *gatewayCheck) printForeseen(f gateway.Foreseen, argv []string) {
	c.printLine(f.Name, clientconfig.WithoutArguments(argv)+" is "+verdictText(f))
	text := c.settingsOf(f.Name)
	if text != "" && f.Verdict != gateway.NotServer {
		c.printLine("", "with "+text)
	}
}

func verdictText(f gateway.Foreseen) string {
	switch f.Verdict {
	case gateway.IsServer:
		return "a server: " + f.Why
	case gateway.NamedLikeServer:
		return "contained from its start, and a server once its client writes MCP: " + f.Why
	case gateway.MayBeServer:
		return "unknown until its client writes MCP"
	}
	return "left alone: " + f.Why
}

// settingsOf returns what differs from the defaults for a server of that name.
func (c *gatewayCheck) settingsOf(server string) string {
	v := settings.Defaults()
	_, _, _ = v.Parse(settings.Gateway, c.flags) // as for the gateway
	v.FromFile(c.files.ForBelowGateway(server))
	usual := strings.Fields(policy.Default().String())
	words := slices.DeleteFunc(strings.Fields(v.Policy.String()), func(word string) bool {
		return slices.Contains(usual, word)
	})
	missing := v.Inapplicable(c.place.Controllers)
	for _, limit := range v.Limits.Files {
		word := limit.String()
		if c.place.Usable && slices.Contains(missing, limit) {
			word += " (not possible here)"
		}
		words = append(words, word)
	}
	if v.Replace {
		words = append(words, "replace")
	}
	if v.Output.Stderr != protocol.StderrInherit {
		words = append(words, "stderr="+string(v.Output.Stderr))
	}
	return strings.Join(words, ", ")
}

func (c *gatewayCheck) printHeading(text string) { fmt.Fprintf(c.out, "\n%s\n", text) }

func (c *gatewayCheck) printLine(subject, text string) {
	fmt.Fprintf(c.out, "  %-15s %s\n", cli.OneLine(subject), cli.OneLine(text))
}
