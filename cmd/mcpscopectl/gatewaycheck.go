// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// gatewayCheckCommand is `mcpscope gateway --check`, whose arguments the runner has accepted.
func gatewayCheckCommand(args []string, stdio cli.Stdio) int {
	c := gatewayCheck{files: settings.ReadFiles()}
	if err := c.parse(args); err != nil {
		p := cli.Printer{Stdio: stdio}
		return p.Fail(cli.ExitOwnFailure, "gateway: "+err.Error(), "mcpscope help gateway")
	}
	c.readServers()
	c.conditions = gateway.OwnConditions()
	// the outer one may have executed this program
	c.outer, c.inside = gateway.Around(proc.Take()).Of(os.Getpid())
	c.inServer = !c.inside && gateway.IsInServer()
	if c.inServer {
		c.inside = true
	}
	if !c.inside {
		c.place = placeOfGateway(c.values.Backend, c.values.Require, c.conditions.NoFilter)
	}
	return c.report(stdio)
}

// gatewayCheck contains the facts about a gateway before it starts.
type gatewayCheck struct {
	out        io.Writer
	flags      []string
	command    []string
	values     *settings.Values // of the gateway
	files      *settings.FileSettings
	rules      gateway.Rules
	wrapped    []gateway.Configured
	unread     error        // of configurations
	place      host.Backend // of its servers, unless it is inside of another gateway
	conditions gateway.Conditions
	outer      gateway.Running // around this process, if inside is true
	inside     bool
	inServer   bool // of mcpscope run, which has all of it
}

// placeOfGateway is where servers get their groups. noFilter is why no program can be held when it starts.
func placeOfGateway(b names.Backend, require bool, noFilter error) host.Backend {
	place := host.LookFor(b, require)
	if noFilter == nil {
		return place
	}
	place.Usable = false
	place.Reason = noFilter.Error()
	place.Fix = host.WithoutListener
	return place
}

// parse reads flags, variables and files as the gateway does.
func (c *gatewayCheck) parse(args []string) error {
	c.values = settings.Defaults()
	command, _, err := c.values.Parse(settings.Gateway, args)
	if err != nil {
		return err
	}
	if len(command) == 0 {
		return errors.New("no command given")
	}
	c.values.FromFile(c.files.ForBelowGateway(""))
	c.command = command
	c.flags = args[:len(args)-len(command)]
	c.rules.Match = c.values.Gateway.Match
	c.rules.Except = c.values.Gateway.Except
	return nil
}

// wantsSession: a limit of a session makes it, too.
func (c *gatewayCheck) wantsSession() bool {
	return c.values.Gateway.WantsSession || len(c.values.Gateway.Session.Files) > 0
}

func (c *gatewayCheck) sessionLimits() (limits []string) {
	for _, limit := range c.values.Gateway.Session.Files {
		limits = append(limits, limit.String())
	}
	return limits
}

// noSession is why the session that was asked for cannot be had, or "".
func (c *gatewayCheck) noSession() string {
	if !c.wantsSession() || c.inside || !c.place.Usable {
		return ""
	}
	if !c.place.HasGroup() {
		return group.ErrNoGroup.Error()
	}
	for _, limit := range c.values.Gateway.Session.Files {
		controller, _, _ := strings.Cut(limit.File, ".")
		if !slices.Contains(c.place.Controllers, controller) {
			return fmt.Sprintf("%s has no controller %s for %s", c.place.Name, controller, limit)
		}
	}
	return ""
}

// readServers reads the configurations as the watcher does.
func (c *gatewayCheck) readServers() {
	servers, err := readConfigured(c.values.Gateway.Configs)
	c.rules.Configured = servers.bare
	c.wrapped = servers.wrapped
	c.unread = err
}

// report prints the check, and returns the exit status.
func (c *gatewayCheck) report(stdio cli.Stdio) int {
	isMistaken := c.unread != nil && len(c.values.Gateway.Configs) > 0
	if isMistaken && c.values.Require && c.place.Usable { // the watcher refuses it
		c.place = host.Backend{Reason: "cannot read configurations: " + c.unread.Error()}
	}
	c.out = stdio.Out
	c.print()
	isUncontained := !c.inside && !c.place.Usable
	if isUncontained || isMistaken || c.noSession() != "" && c.values.Require {
		return cli.ExitFailure
	}
	return cli.ExitOK
}
