// SPDX-License-Identifier: Apache-2.0

package manual

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/settings"
)

// WriteReference writes docs/reference/commands.md and settings.md to dir. They have the words of the helps
// and of the man pages, so they cannot differ from them.
func WriteReference(root *cobra.Command, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "commands.md"), []byte(commandsPage(root)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "settings.md"), []byte(settingsPage()), 0o644)
}

// generated begins a page that a person should not edit.
const generated = "<!-- Generated from the help texts by make reference: change those. -->\n\n"

// selecting is what all commands for servers have in common.
//
//go:embed selecting.txt
var selecting string

func commandsPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands\n\n" + generated)
	b.WriteString("Every command has a help (`mcpscope help COMMAND`) and a man page " +
		"(`man mcpscope-COMMAND`), with the same\nwords as this page.\n\n")
	b.WriteString(selecting)
	b.WriteString("| command | what it does |\n|---|---|\n")
	for _, c := range documented(root) {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), pageName(c), cell(c.Short))
	}
	for _, c := range documented(root) {
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		fmt.Fprintf(&b, "```synopsis\n%s\n```\n\n", synopsis(c))
		if c.Example != "" {
			fmt.Fprintf(&b, "Examples:\n\n```synopsis\n%s\n```\n\n", outdented(c.Example))
		}
		b.WriteString(strings.TrimRight(githubMarkdown(c.Long), "\n") + "\n")
		if flags := flagRows(c.NonInheritedFlags()); flags != "" {
			b.WriteString("\n| flag | |\n|---|---|\n" + flags)
		}
	}
	return b.String()
}

// flagRows are the rows of a table with a command's flags.
func flagRows(flags *pflag.FlagSet) string {
	var rows strings.Builder
	for _, f := range shownFlags(flags) {
		name := f.long
		if f.short != "" {
			name = f.short + ", " + name
		}
		if f.value != "" {
			name += " " + f.value
		}
		fmt.Fprintf(&rows, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), cell(f.usage))
	}
	return rows.String()
}

// settingsPage is mcpscope.toml(5) for a browser: a table in place of the list of keys.
func settingsPage() string {
	var table strings.Builder
	table.WriteString("| key and flag | for | value | default | meaning |\n|---|---|---|---|---|\n")
	for _, row := range settings.Rows(settings.Run | settings.Gateway) {
		if row.Where == 0 {
			continue
		}
		name := "`" + row.Name + "`"
		switch {
		case row.Where&settings.File == 0:
			name += ", not in a file"
		case row.Whole:
			name += ", in a file only in `[defaults]`"
		}
		value := row.Arg
		switch {
		case row.List:
			value = `["` + row.Arg + `", …]`
		case row.Switch():
			value = "true"
		}
		usual := row.Default
		if usual != "" {
			usual = "`" + usual + "`"
		}
		fmt.Fprintf(&table, "| %s | %s | `%s` | %s | %s |\n", name, commandsOf(row.For),
			strings.ReplaceAll(value, "|", `\|`), usual, cell(row.Help))
	}
	text := githubMarkdown(strings.Replace(aboutFile, "@KEYS@", "\x00", 1))
	text, _, _ = strings.Cut(text, "\n# SEE ALSO\n")
	for _, heading := range []string{"EXAMPLES", "DESCRIPTION", "KEYS", "CLIENTS", "FILES"} {
		title := heading[:1] + strings.ToLower(heading[1:])
		text = strings.Replace(text, "# "+heading+"\n", "## "+title+"\n\n", 1)
		text = strings.Replace(text, "## "+title+"\n\n\n", "## "+title+"\n\n", 1)
	}
	text = strings.Replace(text, "\x00", table.String(), 1)
	const head = "# Settings\n\n" + generated + "The same text is in `man mcpscope.toml`.\n\n"
	return head + strings.TrimRight(text, "\n") + "\n"
}

func commandsOf(c settings.Command) string {
	var names []string
	for _, one := range []settings.Command{settings.Run, settings.Gateway} {
		if c&one != 0 {
			names = append(names, one.String())
		}
	}
	return strings.Join(names, ", ")
}

// cell is a help text in a cell of a table.
func cell(text string) string { return strings.ReplaceAll(markdown(text), "|", `\|`) }

// githubMarkdown is a help text whose indented lines are fenced, so that nothing runs them.
func githubMarkdown(text string) string {
	var b strings.Builder
	var block []string
	flush := func() {
		if len(block) == 0 {
			return
		}
		if s := b.String(); !strings.HasSuffix(s, "\n\n") {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "```synopsis\n%s\n```\n", outdented(strings.Join(block, "\n")))
		block = nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, " "):
			block = append(block, line)
		case line == "" && len(block) > 0 && i+1 < len(lines) && strings.HasPrefix(lines[i+1], " "):
			block = append(block, line)
		default:
			fenced := len(block) > 0
			flush()
			if fenced && line != "" {
				b.WriteString("\n")
			}
			b.WriteString(strings.TrimSuffix(markdown(line+"\n"), "\n") + "\n")
		}
	}
	flush()
	return b.String()
}

// outdented is a block without the indentation of a help.
func outdented(block string) string {
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}
