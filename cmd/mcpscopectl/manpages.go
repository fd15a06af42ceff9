// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clients"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// howItWorks is the text of mcpscope(7): what is between two headings is a section.
//
//go:embed mcpscope.7.txt
var howItWorks string

// aboutFile is the text of mcpscope.toml(5).
//
//go:embed mcpscope.toml.5.txt
var aboutFile string

// manPages are all pages, by the names of their files.
func manPages(root *cobra.Command) map[string]string {
	pages := map[string]string{
		"mcpscope.1":      overviewPage(root),
		"mcpscope.7":      textPage("mcpscope", "7", "how MCP servers are contained and ended", howItWorks, nil),
		"mcpscope.toml.5": textPage("mcpscope.toml", "5", "settings of mcpscope run and gateway", aboutFile, fileKeys),
	}
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" {
			pages["mcpscope-"+c.Name()+".1"] = commandPage(c)
		}
	}
	return pages
}

func manSource() string { return "mcpscope " + ownVersion() }

func overviewPage(root *cobra.Command) string {
	r := newPage("mcpscope", "1", manSource())
	r.head("NAME")
	r.text("mcpscope - " + root.Short)
	r.head("SYNOPSIS")
	r.text("mcpscope COMMAND [ARG…]")
	r.head("EXAMPLES")
	r.block(overviewExamples)
	r.head("DESCRIPTION")
	r.text(about)
	r.text("Each command has a page of its own, such as mcpscope-run(1). How it works is in mcpscope(7).")
	r.head("COMMANDS")
	for _, c := range root.Commands() {
		if !c.Hidden {
			r.item(c.Name(), c.Short)
		}
	}
	statusSection(r, "mcpscope")
	r.head("ENVIRONMENT")
	environmentOf(r, "")
	r.head("FILES")
	filesOf(r, "")
	seeAlso(r, "mcpscope-run(1)", "mcpscope-wrap(1)", "mcpscope-ls(1)", "mcpscope.toml(5)", "mcpscope(7)")
	return r.b.String()
}

func commandPage(c *cobra.Command) string {
	name := c.Name()
	r := newPage("mcpscope-"+name, "1", manSource())
	r.head("NAME")
	r.text("mcpscope-" + name + " - " + c.Short)
	r.head("SYNOPSIS")
	for line := range strings.SplitSeq(c.Use, " | ") {
		r.text("mcpscope " + strings.TrimPrefix(line, "mcpscope "))
	}
	if c.Example != "" {
		r.head("EXAMPLES")
		r.block(c.Example)
	}
	r.head("DESCRIPTION")
	r.text(c.Long)
	if name == "wrap" {
		clientsOf(r)
	}
	optionsOf(r, c)
	statusSection(r, name)
	r.head("ENVIRONMENT")
	environmentOf(r, name)
	r.head("FILES")
	filesOf(r, name)
	seeAlso(r, related(name)...)
	return r.b.String()
}

func optionsOf(r *roff, c *cobra.Command) {
	flags := flagsOf(c)
	if len(flags) > 0 {
		r.head("OPTIONS")
	}
	for _, f := range flags {
		r.item(f[0], f[1])
	}
}

func clientsOf(r *roff) {
	r.under("Clients")
	for _, client := range clients.All() {
		r.item(client.ID, client.Title)
	}
}

// textPage makes a page of a text: lines in capitals are headings. The section KEYS is made by keys.
func textPage(name, section, short, text string, keys func(*roff)) string {
	r := newPage(name, section, manSource())
	r.head("NAME")
	r.text(name + " - " + short)
	for part := range strings.SplitSeq("\n"+text, "\n# ") {
		title, body, _ := strings.Cut(part, "\n")
		if title == "" {
			continue
		}
		r.head(title)
		if strings.TrimSpace(body) != "" {
			r.text(body)
		}
		if title == "KEYS" {
			keys(r)
		}
	}
	return r.b.String()
}

// fileKeys are those of mcpscope.toml, from the table of settings.
func fileKeys(r *roff) {
	for _, row := range settings.Rows(settings.Run | settings.Gateway) {
		if row.Where&settings.File == 0 {
			continue
		}
		term := row.Name + " = true"
		if !row.Switch() {
			term = row.Name + " = " + row.Arg
		}
		r.item(term, row.Help)
	}
}

// exitStatus is a row of the table of exit statuses.
type exitStatus struct {
	status int
	text   string
}

// exitStatuses are those of a command.
func exitStatuses(command string) []exitStatus {
	switch command {
	case "run", "gateway":
		return []exitStatus{
			{cli.ExitOwnFailure, "mcpscope itself failed, or was called wrongly: nothing was started, or it was ended, or something is left."},
			{cli.ExitNotRunnable, "COMMAND is there and can't be executed."},
			{cli.ExitNotFound, "There is no COMMAND."},
		}
	case "doctor":
		return []exitStatus{
			{cli.ExitOK, "A server gets a control group of its own."},
			{cli.ExitFailure, "It does not, or a process escaped."},
			{cli.ExitUsage, "A mistake in the arguments."},
			{cli.ExitOwnFailure, "doctor itself failed."},
		}
	}
	return []exitStatus{
		{cli.ExitOK, "It was done, or there was nothing to do."},
		{cli.ExitFailure, "It failed, or a part of it did; stderr says what."},
		{cli.ExitUsage, "A mistake in the arguments."},
	}
}

func statusSection(r *roff, command string) {
	r.head("EXIT STATUS")
	switch command {
	case "run", "gateway":
		r.text(fmt.Sprintf(`The status of COMMAND; if a signal ended it, mcpscope ends by the same signal, or, as the first process of a container, with %d plus its number. Else:`, cli.ExitSignalBase))
	case "mcpscope":
		r.text("Of every command but run, gateway and doctor, whose pages have theirs:")
	}
	for _, s := range exitStatuses(command) {
		r.item(fmt.Sprint(s.status), s.text)
	}
}

// environmentOf lists the variables that a command reads; all have those of "".
func environmentOf(r *roff, command string) {
	if of, ok := map[string]settings.Command{"run": settings.Run, "gateway": settings.Gateway}[command]; ok {
		for _, row := range settings.Rows(of) {
			if v := row.Variable(); v != "" {
				value := row.Arg
				if row.Switch() {
					value = "1"
				}
				r.item(v, "As "+settings.Dashes(row.Name)+": "+value+".")
			}
		}
		r.item("MCPSCOPE_ID", "Set for COMMAND: the id of its group.")
	}
	r.item("MCPSCOPE_CONFIG", "One more file of settings, which counts more than the others; see mcpscope.toml(5).")
	r.item("XDG_CONFIG_HOME, HOME", "Where the user's files are.")
	switch command {
	case "run", "gateway", "doctor", "":
		r.item("XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS", "Not needed: the user's manager is found without them.")
	case "ls", "inspect", "top", "wrap":
		r.item("COLUMNS, TERM", "The terminal that is printed on.")
	}
}

func filesOf(r *roff, command string) {
	switch command {
	case "wrap", "unwrap":
		r.item("~/.local/state/mcpscope/backups", "The configurations without mcpscope; XDG_STATE_HOME moves ~/.local/state.")
	case "units", "sweep":
		r.item("/etc/systemd/system, ~/.config/systemd/user", "Where mcpscope units installs units; a package has them in /usr/lib/systemd.")
	}
	r.item("/etc/mcpscope/mcpscope.toml, ~/.config/mcpscope/mcpscope.toml", "Settings; see mcpscope.toml(5).")
	r.item("/sys/fs/cgroup", "The groups: mcp-NAME-ID.scope in a slice mcp.slice, or mcp.slice/UID/mcp-NAME-ID.")
}

// related are the pages that a page leads to.
func related(command string) []string {
	pages := []string{"mcpscope(1)"}
	for _, set := range [][]string{
		{"run", "gateway", "config", "set", "doctor"}, {"wrap", "unwrap"}, {"ls", "top", "inspect", "stop", "freeze", "thaw", "set"},
		{"logs", "metrics"}, {"sweep", "units"},
	} {
		for _, name := range set {
			if name == command {
				for _, other := range set {
					if other != command {
						pages = append(pages, "mcpscope-"+other+"(1)")
					}
				}
			}
		}
	}
	return append(pages, "mcpscope.toml(5)", "mcpscope(7)")
}

func seeAlso(r *roff, pages ...string) {
	r.head("SEE ALSO")
	r.text(strings.Join(pages, ", "))
	r.text("The documents, with the fields of JSON: https://github.com/mcpscope/mcpscope/tree/main/docs")
}
