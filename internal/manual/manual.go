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

// page is one that belongs to no command.
type page struct{ name, section, short, text string }

// Write writes a page for each command, mcpscope(7) and mcpscope.toml(5).
func Write(root *cobra.Command, version, dir string) error {
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd("completion")
	for _, c := range append(root.Commands(), root) {
		c.Long = markdown(c.Long)
	}
	source := "mcpscope " + version
	header := &doc.GenManHeader{Section: "1", Source: source, Manual: "mcpscope"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	for _, p := range pages() {
		file := filepath.Join(dir, p.name+"."+p.section)
		if err := os.WriteFile(file, md2man.Render([]byte(p.markdown(source))), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func pages() []page {
	return []page{
		{
			name:    "mcpscope",
			section: "7",
			short:   "how MCP servers are contained and stopped",
			text:    howItWorks,
		},
		{
			name:    "mcpscope.toml",
			section: "5",
			short:   "settings of mcpscope run and gateway",
			text:    strings.Replace(aboutFile, "@KEYS@", fileKeys(), 1),
		},
	}
}

// markdown is the page with the header that md2man reads.
func (p page) markdown(source string) string {
	return fmt.Sprintf("%% \"%s\" \"%s\" \"\" \"%s\" \"mcpscope\"\n\n# NAME\n%s - %s\n\n%s",
		strings.ToUpper(p.name), p.section, source, p.name, p.short, markdown(p.text))
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
