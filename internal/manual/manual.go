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
	"github.com/spf13/cobra/doc"

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

// Write writes a page for each command, mcpscope(7) and mcpscope.toml(5).
func Write(root *cobra.Command, version, dir string) error {
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd("completion")
	for _, c := range append(root.Commands(), root) {
		c.Long = markdown(c.Long)
	}
	header := &doc.GenManHeader{Section: "1", Source: "mcpscope " + version, Manual: "mcpscope"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	for _, page := range []struct{ name, section, short, text string }{
		{"mcpscope", "7", "how MCP servers are contained and stopped", howItWorks},
		{"mcpscope.toml", "5", "settings of mcpscope run and gateway",
			strings.Replace(aboutFile, "@KEYS@", fileKeys(), 1)},
	} {
		text := fmt.Sprintf("%% \"%s\" \"%s\" \"\" \"%s\" \"mcpscope\"\n\n# NAME\n%s - %s\n\n%s",
			strings.ToUpper(page.name), page.section, header.Source, page.name, page.short,
			markdown(page.text))
		file := filepath.Join(dir, page.name+"."+page.section)
		if err := os.WriteFile(file, md2man.Render([]byte(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fileKeys lists the keys of mcpscope.toml.
func fileKeys() string {
	var rows [][2]string
	for _, row := range settings.Rows(settings.Run | settings.Gateway) {
		if row.Where&settings.File != 0 {
			arg := "true"
			switch {
			case row.List:
				arg = `["` + row.Arg + `", …]`
			case !row.Switch():
				arg = row.Arg
			}
			rows = append(rows, [2]string{row.Name + " = " + arg, row.Help})
		}
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
