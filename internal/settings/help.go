// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

type text struct{ usage, examples, before, after string }

const statuses = `
The exit status, or the signal that ends the process, is that of COMMAND. It is
125 if mcpscope itself failed, 126 if COMMAND cannot be executed, and 127 if
COMMAND was not found.
`

func textOf(of Command) text {
	if of == Gateway {
		return text{
			usage: "mcpscope gateway [flags] [--] COMMAND [ARG…]",
			examples: `  mcpscope gateway -- hermes-gateway --port 8000
  mcpscope gateway --match 'npx *mcp*' --memory-max 1G -- my-agent
`,
			before: `Become COMMAND, a gateway: the process keeps its pid, parent and unit. Each MCP
server that COMMAND or one of its descendants starts gets its own group, and is
stopped with all its descendants, as with mcpscope run. A SIGKILL of the gateway
stops its servers, too. Other programs are not touched.

A program is a server if it is configured for a client found on this host,
matches --match, or has mcp in its name. Otherwise it is a server if its client
writes MCP to it as soon as it starts.
`,
			after: "\nSettings of mcpscope run apply to each server separately: " +
				"see mcpscope help run.\n" + statuses,
		}
	}
	return text{
		usage: "mcpscope run [flags] [--] COMMAND [ARG…]",
		examples: `  mcpscope run -- npx -y @modelcontextprotocol/server-everything
  mcpscope run --name git --memory-max 1G --pids-max 200 -- uvx mcp-server-git
`,
		before: `Run COMMAND, an MCP server, in its own control group. When mcpscope run returns,
no process that COMMAND started is left. If mcpscope run is killed, they are
stopped. COMMAND inherits stdin, stdout and stderr directly.
`,
		after: `
D is a duration such as 1.2s, 500ms, 0 or infinity. Each flag has an environment
variable (--eof-grace MCPSCOPE_EOF_GRACE, -q MCPSCOPE_QUIET=1, -v
MCPSCOPE_VERBOSE=1, --require MCPSCOPE_REQUIRE=1). COMMAND does not inherit
these variables. Flags override variables, and variables override mcpscope.toml:
see 'man mcpscope.toml'. The environment of COMMAND contains MCPSCOPE_ID, the id
of its group.
` + statuses,
	}
}

// Summary returns the short description of a command.
func Summary(of Command) string {
	if of == Gateway {
		return "run a gateway, and each of its servers in its own group"
	}
	return "run a server in its own group"
}

// Examples returns indented command lines.
func Examples(of Command) string { return textOf(of).examples }

// Long returns the description of a command without its flags.
func Long(of Command) string { return textOf(of).before + textOf(of).after }

// Help returns the output of `mcpscope help COMMAND`.
func Help(of Command) string {
	t := textOf(of)
	return "Usage: " + t.usage + "\n\n" + t.examples + "\n" + t.before + "\n" + Flags(of) + t.after
}

// Flags returns a paragraph for each setting of a command.
func Flags(of Command) string {
	var rows [][2]string
	for _, r := range Rows(of) {
		rows = append(rows, [2]string{r.Flag(), r.Help})
	}
	return cli.Columns(rows)
}

// Flag returns the flag with its value, for help texts.
func (r *Row) Flag() string {
	flag := Dashes(r.Name)
	if r.Short != "" {
		flag = Dashes(r.Short) + ", " + flag
	}
	return strings.TrimSpace(flag + " " + r.Arg)
}
