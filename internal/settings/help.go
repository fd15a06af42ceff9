// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// text is what a help has around the list of flags.
type text struct{ usage, examples, before, after string }

const statuses = `
The exit status is COMMAND's, or its signal; 125 if mcpscope itself failed, 126
if COMMAND can't be executed, 127 if there is none.
`

func textOf(of Command) text {
	if of == Gateway {
		return text{
			usage: "mcpscope gateway [flags] [--] COMMAND [ARG…]",
			examples: `  mcpscope gateway -- hermes-gateway --port 8000
  mcpscope gateway --match 'npx *mcp*' --memory-max 1G -- my-agent
`,
			before: `Becomes COMMAND, a gateway: the same process, with the same pid, parent and
unit. Each MCP server that is started below it, by itself or by what it starts,
is put into a group of its own, and ended as with mcpscope run: with all that it
started, also when the gateway is killed. What else is started is left alone. A
server is configured for a client found here, matches --match, has mcp in its
name, or its client writes MCP to it as soon as it starts.
`,
			after: "\nSettings that mcpscope run has too are for each server by itself: see mcpscope\nhelp run.\n" + statuses,
		}
	}
	return text{
		usage: "mcpscope run [flags] [--] COMMAND [ARG…]",
		examples: `  mcpscope run -- npx -y @modelcontextprotocol/server-everything
  mcpscope run --name git --memory-max 1G --pids-max 200 -- uvx mcp-server-git
`,
		before: `Runs COMMAND, an MCP server, in a control group of its own. When it returns, or
was killed, nothing that COMMAND started is left. stdin, stdout and stderr are
COMMAND's own.
`,
		after: `
D is a duration like 1.2s or 500ms, 0, or infinity. Each flag can be
set in the environment too (--eof-grace as MCPSCOPE_EOF_GRACE, -q as
MCPSCOPE_QUIET=1, -v as MCPSCOPE_VERBOSE=1, --require as MCPSCOPE_REQUIRE=1);
these variables are not passed on. What neither sets may be in mcpscope.toml:
man mcpscope.toml. COMMAND finds the id of its group in MCPSCOPE_ID.
` + statuses,
	}
}

// Summary is a command in a few words.
func Summary(of Command) string {
	if of == Gateway {
		return "run a gateway, and each server that it starts in a group of its own"
	}
	return "run a server in a group of its own"
}

// Examples are command lines, indented.
func Examples(of Command) string { return textOf(of).examples }

// Long explains a command, without its flags.
func Long(of Command) string { return textOf(of).before + textOf(of).after }

// Help is all that `mcpscope help COMMAND` prints.
func Help(of Command) string {
	t := textOf(of)
	return "Usage: " + t.usage + "\n\n" + t.examples + "\n" + t.before + "\n" + Flags(of) + t.after
}

// Flags explains the settings of a command, a paragraph each.
func Flags(of Command) string {
	var rows [][2]string
	for _, r := range Rows(of) {
		rows = append(rows, [2]string{r.Flag(), r.Help})
	}
	return cli.Columns(rows)
}

// Flag is how it is written on a command line, for people.
func (r *Row) Flag() string {
	flag := Dashes(r.Name)
	if r.Short != "" {
		flag = Dashes(r.Short) + ", " + flag
	}
	return strings.TrimSpace(flag + " " + r.Arg)
}
