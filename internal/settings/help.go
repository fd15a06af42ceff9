// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/flags"
)

// Text is the help of a command without its flags. Examples are indented; Before and After are around the
// flags.
type Text struct{ Summary, Examples, Before, After string }

const statuses = `
The exit status, or the signal that ends the process, is that of COMMAND. It is
125 if mcpscope itself failed, 126 if COMMAND cannot be executed, and 127 if
COMMAND was not found.
`

// TextOf returns the texts of run or gateway.
func TextOf(of Command) Text {
	if of == Gateway {
		return Text{
			Summary: "run a gateway, and each of its servers in its own group",
			Examples: `  mcpscope gateway -- hermes-gateway --port 8000
  mcpscope gateway --match 'npx *mcp*' --memory-max 1G -- my-agent
  mcpscope gateway --check -- npx -y foo-mcp
`,
			Before: `Become COMMAND, a gateway or an agent: the process keeps its pid, parent and
unit. Each MCP server that COMMAND or one of its descendants starts gets a group
of its own, and ends with COMMAND, however COMMAND ends. Other programs are left
alone.

A program is a server if a client of this user has it in its configuration, if
it matches --match, or as soon as MCP is written to its stdin. A program that
only looks like a server, because mcp is in its name, gets a group at once and
becomes a server when it receives MCP.

Without root, sudo and other setuid programs don't work under COMMAND: it has
no_new_privs set.
`,
			After: `
Flags that mcpscope run has, too, apply to each server separately. The lists
match and except in [defaults] of mcpscope.toml are for all gateways; --match
and --except replace them.

--check starts nothing. It judges the configured servers, and COMMAND if that
may be one, as if a gateway started them with pipes. Whether servers can be
contained depends on where it runs, so run it as the user of the gateway, in its
unit or container. The exit status is 0 if they can be contained, and 1 if not.
` + statuses,
		}
	}
	return Text{
		Summary: "run a server in its own group",
		Examples: `  mcpscope run -- npx -y @modelcontextprotocol/server-everything
  mcpscope run --name git --memory-max 1G --pids-max 200 -- uvx mcp-server-git
`,
		Before: `Run COMMAND, an MCP server, in its own control group. When mcpscope run returns,
no process that COMMAND started is left. If mcpscope run is killed, they are
killed, too. COMMAND has the caller's own stdin, stdout and stderr.
`,
		After: `
D is a duration such as 1.2s, 500ms, 0 or infinity. Each flag but --keep has an
environment variable (--eof-grace MCPSCOPE_EOF_GRACE, -q MCPSCOPE_QUIET=1, -v
MCPSCOPE_VERBOSE=1, --require MCPSCOPE_REQUIRE=1). COMMAND does not inherit
these variables. Flags override variables, and variables override mcpscope.toml:
see 'man mcpscope.toml'. The environment of COMMAND contains MCPSCOPE_ID, the id
of its group.
` + statuses,
	}
}

// Help returns the output of `mcpscope help COMMAND`.
func Help(of Command) string {
	t := TextOf(of)
	var rows [][2]string
	for _, r := range Rows(of) {
		rows = append(rows, [2]string{r.flag(), r.Help})
	}
	return fmt.Sprintf("Usage: mcpscope %s [flags] [--] COMMAND [ARG…]\n\n%s\n%s\n%s%s",
		of, t.Examples, t.Before, cli.Columns(rows), t.After)
}

func (r *Row) flag() string {
	flag := flags.Dashes(r.Name)
	if r.Short != "" {
		flag = flags.Dashes(r.Short) + ", " + flag
	}
	return strings.TrimSpace(flag + " " + r.Arg)
}
