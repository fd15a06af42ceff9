// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/diagnose"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// gatewayCheckCommand is `mcpscope gateway --check`, whose arguments the runner has accepted.
func gatewayCheckCommand(args []string, io cli.Stdio) int {
	c := gatewayCheck{Stdio: io, files: settings.ReadFiles()}
	var err error
	if c.values, c.command, err = c.gatewaySettings(args); err != nil {
		p := cli.Printer{Stdio: io}
		return p.Fail(cli.ExitOwnFailure, "gateway: "+err.Error(), "mcpscope help gateway")
	}
	c.flags = args[:len(args)-len(c.command)]
	programs, err := diagnose.FindPrograms()
	if err != nil {
		io.Cannot("check a gateway", err)
		return cli.ExitOwnFailure
	}
	c.rules = gateway.Rules{Match: c.values.Match, Except: c.values.Except}
	c.rules.Configured, c.wrapped, c.unread = configuredServers(c.values.Configs)
	c.outer, c.inside = gateway.Around().Of(os.Getpid()) // the outer one may have executed this program
	if !c.inside {
		c.trial = diagnose.TryGateway(programs, c.values.Backend)
	}
	c.conditions = gateway.OwnConditions()
	if c.unread != nil && len(c.values.Configs) > 0 && c.trial.Reason == "" { // the watcher refuses that, too
		c.trial.Reason = "cannot read configurations: " + c.unread.Error()
	}
	c.print()
	if c.trial.Reason != "" {
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// gatewayCheck has what is known of a gateway before it starts.
type gatewayCheck struct {
	cli.Stdio
	flags, command []string
	values         *settings.Values // of the gateway
	files          *settings.FileSettings
	rules          gateway.Rules
	wrapped        []gateway.Configured
	unread         error // of configurations
	trial          diagnose.GatewayTrial
	conditions     gateway.Conditions
	outer          gateway.Running // around this process, if inside is true
	inside         bool
}

// gatewaySettings reads flags, variables and files as the gateway does.
func (c *gatewayCheck) gatewaySettings(args []string) (v *settings.Values, command []string, err error) {
	v = settings.Defaults()
	command, _, err = v.Parse(settings.Gateway, args)
	if err == nil && len(command) == 0 {
		err = errors.New("no command given")
	}
	v.FromFile(c.files.ForBelowGateway(""))
	return v, command, err
}

func (c *gatewayCheck) print() {
	gatewayName := name.Derive(c.command)
	c.printHost()
	c.printRules()
	c.printHeading("this command, if a gateway starts it with pipes:")
	own := c.rules.ForeseeCommand(c.command)
	c.printForeseen(own, c.command)
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

// printHost prints whether servers can be contained, and the restrictions that apply then.
func (c *gatewayCheck) printHost() {
	switch {
	case c.inside:
		outer := fmt.Sprintf("%s[%d]", c.outer.Name, c.outer.PID)
		const text = "servers are contained by the gateway around this one, %s, and by its rules\n"
		fmt.Fprintf(c.Out, text, cli.OneLine(outer))
	case c.trial.Reason != "":
		fmt.Fprintf(c.Out, "servers cannot be contained here: %s\n", cli.ErrorText(c.trial.Reason))
	default:
		meaning := diagnose.Meaning(c.trial.Backend)
		fmt.Fprintf(c.Out, "servers can be contained here, by %s: %s\n", c.trial.Backend, meaning)
	}
	for _, remedy := range c.trial.Remedies {
		fmt.Fprintf(c.Out, "  → %s\n", cli.OneLine(remedy))
	}
	if _, err := cli.Lookup(c.command[0]); err != nil {
		c.printLine("command", cli.ErrorLine(err))
	}
	if c.conditions.NoNewPrivs {
		c.printLine("privileges", "without root it sets no_new_privs: sudo does not work below it")
	}
	if c.conditions.Blind {
		c.printLine("yama", "unread input and the end of stdin are seen on pipes, not on sockets")
	}
	if c.unread != nil && c.trial.Reason == "" {
		c.printLine("configurations", "cannot be read: "+cli.ErrorLine(c.unread))
	}
	for _, problem := range c.files.Problems {
		c.printLine("settings", cli.ErrorLine(problem))
	}
}

// printRules prints the patterns, and the flag or the file that they are from.
func (c *gatewayCheck) printRules() {
	fromFiles := c.files.ForBelowGateway("")
	for _, rule := range []struct {
		key      string
		patterns []string
	}{{"match", c.rules.Match}, {"except", c.rules.Except}} {
		origin := settings.Dashes(rule.key)
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
	if text := c.settingsOf(f.Name); text != "" && f.Verdict != gateway.Left {
		c.printLine("", "with "+text)
	}
}

func verdictText(f gateway.Foreseen) string {
	switch f.Verdict {
	case gateway.Taken:
		return "a server: " + f.Why
	case gateway.Named:
		return "contained from its start, and a server once its client writes MCP: " + f.Why
	case gateway.Candidate:
		return "unknown until its client writes MCP; with --match it is a server from its start"
	}
	return "left alone: " + f.Why
}

// settingsOf returns what differs from the defaults for a server of that name.
func (c *gatewayCheck) settingsOf(server string) string {
	v := settings.Defaults()
	_, _, _ = v.Parse(settings.Gateway, c.flags) // as for the gateway
	v.FromFile(c.files.ForBelowGateway(server))
	usual := strings.Fields(protocol.DefaultPolicy().String())
	words := slices.DeleteFunc(strings.Fields(v.Policy.String()), func(word string) bool {
		return slices.Contains(usual, word)
	})
	missing := v.Inapplicable(c.trial.Controllers)
	for _, limit := range v.Limits.Files {
		word := limit.String()
		if c.trial.Backend != "" && slices.Contains(missing, limit) {
			word += " (not possible here)"
		}
		words = append(words, word)
	}
	if v.Replace {
		words = append(words, "replace")
	}
	if v.Stderr != protocol.StderrInherit {
		words = append(words, "stderr="+string(v.Stderr))
	}
	return strings.Join(words, ", ")
}

func (c *gatewayCheck) printHeading(text string) { fmt.Fprintf(c.Out, "\n%s\n", text) }

func (c *gatewayCheck) printLine(subject, text string) {
	fmt.Fprintf(c.Out, "  %-15s %s\n", cli.OneLine(subject), cli.OneLine(text))
}
