// SPDX-License-Identifier: Apache-2.0

// Package manual writes the man pages.
package manual

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// howItWorks is the text of mcpscope(7).
//
//go:embed mcpscope.7.txt
var howItWorks string

// aboutFile is the text of mcpscope.toml(5).
//
//go:embed mcpscope.toml.5.txt
var aboutFile string

// page is one man page. The text is Markdown behind the section NAME.
type page struct{ name, section, short, text string }

// Write writes a page for each command, mcpscope(7) and mcpscope.toml(5).
func Write(root *cobra.Command, version, dir string) error {
	root.InitDefaultCompletionCmd("completion")
	all := append(pages(), commandPage(root))
	for _, c := range documented(root) {
		all = append(all, commandPage(c))
		for _, below := range documented(c) {
			all = append(all, commandPage(below))
		}
	}
	for _, p := range all {
		file := filepath.Join(dir, p.name+"."+p.section)
		text := md2man.Render([]byte(p.markdown("mcpscope " + version)))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// documented are the commands below one that have a page: cobra's own help, and what is hidden, have none,
// and the page on completion has its shells.
func documented(c *cobra.Command) (below []*cobra.Command) {
	if c.Name() == "completion" {
		return nil
	}
	for _, one := range c.Commands() {
		if one.IsAvailableCommand() && one.Name() != "help" {
			below = append(below, one)
		}
	}
	return below
}

// pageName is "mcpscope-ls" for mcpscope ls.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func commandPage(c *cobra.Command) page {
	var text strings.Builder
	section := func(title, content string) {
		if content != "" {
			fmt.Fprintf(&text, "# %s\n%s\n\n", title, strings.TrimRight(content, "\n"))
		}
	}
	section("SYNOPSIS", markdown(synopsis(c)))
	section("EXAMPLES", markdown(c.Example))
	section("DESCRIPTION", markdown(c.Long))
	section("COMMANDS", commandList(c))
	section("OPTIONS", options(c.NonInheritedFlags()))
	section("SEE ALSO", seeAlso(c))
	return page{name: pageName(c), section: "1", short: c.Short, text: text.String()}
}

func synopsis(c *cobra.Command) string {
	if !c.HasParent() {
		return "mcpscope COMMAND [ARG…]"
	}
	return c.Parent().CommandPath() + " " + c.Use
}

// commandList has a line for each command below another one.
func commandList(c *cobra.Command) string {
	var list strings.Builder
	for _, below := range documented(c) {
		fmt.Fprintf(&list, "**%s**(1)\n: %s\n\n", pageName(below), markdown(below.Short))
	}
	return list.String()
}

// shownFlag is a flag as its help has it.
type shownFlag struct {
	long, short string // with their dashes; short is "" for none
	value       string // what stands for it, "" for a switch
	usage       string
}

func shownFlags(flags *pflag.FlagSet) (all []shownFlag) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		shown := shownFlag{long: "--" + f.Name}
		shown.value, shown.usage = pflag.UnquoteUsage(f)
		if f.Shorthand != "" {
			shown.short = "-" + f.Shorthand
		}
		all = append(all, shown)
	})
	return all
}

// options has a line for each flag, as the help of the command has it: "--grace D".
func options(flags *pflag.FlagSet) string {
	var list strings.Builder
	for _, f := range shownFlags(flags) {
		name := "**" + f.long + "**"
		if f.short != "" {
			name = "**" + f.short + "**, " + name
		}
		if f.value != "" {
			name += " " + markdown(f.value)
		}
		fmt.Fprintf(&list, "%s\n: %s\n\n", name, markdown(f.usage))
	}
	return list.String()
}

func seeAlso(c *cobra.Command) string {
	switch {
	case !c.HasParent():
		return "**mcpscope**(7), **mcpscope.toml**(5)"
	case c.Parent().HasParent():
		return "**" + pageName(c.Parent()) + "**(1), **mcpscope**(1)"
	}
	return "**mcpscope**(1), **mcpscope**(7)"
}

// pages are those that belong to no command.
func pages() []page {
	return []page{
		{
			name:    "mcpscope",
			section: "7",
			short:   "how MCP servers are contained and stopped",
			text:    markdown(howItWorks),
		},
		{
			name:    "mcpscope.toml",
			section: "5",
			short:   "settings of mcpscope run and gateway",
			text:    markdown(strings.Replace(aboutFile, "@KEYS@", fileKeys(), 1)),
		},
	}
}

// markdown is the page with the header that md2man reads.
func (p page) markdown(source string) string {
	return fmt.Sprintf("%% \"%s\" \"%s\" \"\" \"%s\" \"mcpscope\"\n\n# NAME\n%s - %s\n\n%s",
		strings.ToUpper(p.name), p.section, source, p.name, p.short, p.text)
}

// fileKeys lists the keys of mcpscope.toml.
func fileKeys() string {
	var rows [][2]string
	for _, row := range settings.Rows(settings.Run | settings.Gateway) {
		if row.Where&settings.File == 0 {
			continue
		}
		value := row.Arg
		switch {
		case row.List:
			value = `["` + row.Arg + `", …]`
		case row.Switch():
			value = "true"
		}
		rows = append(rows, [2]string{row.Name + " = " + value, row.Help})
	}
	return cli.Columns(rows)
}

// markdown is a help text as Markdown: indented lines become code.
func markdown(text string) string {
	escape := strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`")
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, " ")
		switch {
		case indented && !code:
			b.WriteString("\n    " + line)
		case indented:
			b.WriteString("    " + line)
		default:
			b.WriteString(escape.Replace(line))
		}
		code = indented || code && strings.TrimSpace(line) == ""
	}
	return b.String()
}
