// SPDX-License-Identifier: Apache-2.0

package clients

import "github.com/mcpscope/mcpscope/internal/wrapping"

const hermesNote = "Hermes knows by a command's name when to look a package up among malicious ones (OSV), to start npx's copy from its cache, " +
	"and to refuse a shell: behind mcpscope it does none of that; `mcpscope gateway` needs no change here"

// All are the clients that are known. It is a function because every start of a server would pay for a variable.
func All() []Client {
	mcpServers, underscored := place("mcpServers"), place("mcp_servers")
	servers, mcp := place("servers"), place("mcp")
	return []Client{
		{"claude-code", "Claude Code", []pattern{
			jsonIn("~", ".claude.json", []wrapping.Place{{"mcpServers"}, {"projects", "*", "mcpServers"}}).or("CLAUDE_CONFIG_DIR"),
			jsonIn(project, ".mcp.json", mcpServers),
			jsonIn("~/.claude", "plugins/cache/*/*/*/.mcp.json", mcpServers).or("CLAUDE_CONFIG_DIR").leftAlone(plugin),
			jsonIn("/etc/claude-code", "managed-mcp.json", mcpServers).leftAlone(managed),
		}, ""},
		{"claude-desktop", "Claude Desktop", []pattern{
			jsonIn("~/.config", "[Cc]laude/claude_desktop_config.json", mcpServers).or(config),
		}, ""},
		{"codex", "Codex", []pattern{
			tomlIn("~/.codex", "config.toml", underscored).or("CODEX_HOME"),
			tomlIn("~/.codex", "*.config.toml", underscored).or("CODEX_HOME"),
			tomlIn(project, ".codex/config.toml", underscored),
			tomlIn("/etc/codex", "*config.toml", underscored).leftAlone(managed),
		}, ""},
		{"cursor", "Cursor", []pattern{
			jsonIn("~/.cursor", "mcp.json", mcpServers),
			jsonIn(project, ".cursor/mcp.json", mcpServers),
		}, ""},
		{"vscode", "VS Code", []pattern{
			jsonIn("~/.config", "Code*/User/mcp.json", servers).or(config),
			jsonIn("~/.config", "VSCodium/User/mcp.json", servers).or(config),
			jsonIn("~/.config", "Code*/User/profiles/*/mcp.json", servers).or(config),
			jsonIn("~/.config", "Code*/User/settings.json", place("mcp", "servers")).or(config),
			jsonIn("~", ".vscode-server*/data/User/mcp.json", servers),
			jsonIn(project, ".vscode/mcp.json", servers),
		}, ""},
		{"windsurf", "Windsurf", []pattern{
			jsonIn("~/.codeium", "windsurf*/mcp_config.json", mcpServers),
		}, ""},
		{"zed", "Zed", []pattern{
			jsonIn("~/.config", "zed/settings.json", place("context_servers")).or(config),
			jsonIn("~/.var/app/dev.zed.Zed/config", "zed/settings.json", place("context_servers")),
			jsonIn(project, ".zed/settings.json", place("context_servers")),
		}, ""},
		{"gemini", "Gemini CLI", []pattern{
			jsonIn("~/.gemini", "settings.json", mcpServers),
			jsonIn(project, ".gemini/settings.json", mcpServers),
			jsonIn("~/.gemini", "extensions/*/gemini-extension.json", mcpServers).leftAlone(plugin),
			jsonIn("/etc/gemini-cli", "settings.json", mcpServers).leftAlone(managed),
		}, ""},
		{"qwen", "Qwen Code", []pattern{
			jsonIn("~/.qwen", "settings.json", mcpServers),
			jsonIn(project, ".qwen/settings.json", mcpServers),
			jsonIn("~/.qwen", "extensions/*/qwen-extension.json", mcpServers).leftAlone(plugin),
			jsonIn("/etc/qwen-code", "settings.json", mcpServers).leftAlone(managed),
		}, ""},
		{"mcporter", "mcporter", []pattern{
			jsonIn("~/.mcporter", "mcporter.json", mcpServers),
			jsonIn("~/.mcporter", "mcporter.jsonc", mcpServers),
			jsonIn(project, "config/mcporter.json", mcpServers),
		}, ""},
		{"copilot", "Copilot CLI", []pattern{
			jsonIn("~/.copilot", "mcp-config.json", mcpServers).or("COPILOT_HOME"),
			jsonIn("~/.config", "copilot/mcp-config.json", mcpServers).or(config),
		}, ""},
		{"goose", "Goose", []pattern{
			yamlIn("~/.config", "goose/config.yaml", place("extensions")).or(config),
		}, ""},
		{"hermes", "Hermes", []pattern{
			yamlIn("~/.hermes", "config.yaml", underscored).or("HERMES_HOME"),
			yamlIn("~/.hermes", "profiles/*/config.yaml", underscored).or("HERMES_HOME"),
		}, hermesNote},
		{"cline", "Cline", []pattern{
			jsonIn("~/.config", "*/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", mcpServers).or(config),
			jsonIn("~", ".*-server*/data/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", mcpServers),
			jsonIn("~/.cline", "data/settings/cline_mcp_settings.json", mcpServers),
		}, ""},
		{"continue", "Continue", []pattern{
			yamlIn("~/.continue", "config.yaml", mcpServers),
			yamlIn("~/.continue", "mcpServers/*.y*ml", mcpServers),
			yamlIn(project, ".continue/mcpServers/*.y*ml", mcpServers),
			jsonIn(project, ".continue/mcpServers/*.json", mcpServers),
		}, ""},
		{"librechat", "LibreChat", []pattern{
			yamlIn(project, "librechat.yaml", mcpServers),
		}, ""},
		{"opencode", "opencode", []pattern{
			jsonIn("~/.config", "opencode/opencode.json", mcp).or(config),
			jsonIn("~/.config", "opencode/opencode.jsonc", mcp).or(config),
			jsonIn("~/.config", "opencode/config.json", mcp).or(config),
			jsonIn(project, "opencode.json", mcp),
			jsonIn(project, "opencode.jsonc", mcp),
			jsonIn(project, ".opencode/opencode.json", mcp),
			jsonIn(project, ".opencode/opencode.jsonc", mcp),
		}, ""},
		{"crush", "Crush", []pattern{
			jsonIn("~/.config", "crush/crush.json", mcp).or(config),
			jsonIn(project, ".crush.json", mcp),
			jsonIn(project, "crush.json", mcp),
		}, ""},
		{"kiro", "Kiro", []pattern{
			jsonIn("~/.kiro", "settings/mcp.json", mcpServers),
			jsonIn(project, ".kiro/settings/mcp.json", mcpServers),
		}, ""},
		{"lmstudio", "LM Studio", []pattern{
			jsonIn("~/.lmstudio", "mcp.json", mcpServers),
		}, ""},
		{"amp", "Amp", []pattern{
			jsonIn("~/.config", "amp/settings.json", place("amp.mcpServers")).or(config),
			jsonIn("~/.config", "amp/settings.jsonc", place("amp.mcpServers")).or(config),
			jsonIn(project, ".amp/settings.json", place("amp.mcpServers")),
			jsonIn(project, ".amp/settings.jsonc", place("amp.mcpServers")),
		}, ""},
		{"vibe", "Mistral Vibe", []pattern{
			tomlIn("~/.vibe", "config.toml", underscored).or("VIBE_HOME"),
			tomlIn(project, ".vibe/config.toml", underscored),
		}, ""},
		{"1mcp", "1mcp", []pattern{
			jsonIn("~/.config", "1mcp/mcp.json", mcpServers).or(config),
		}, ""},
	}
}

// everywhere is where servers may be in a file that is nobody's: mcpo's, mcp-proxy's, one that is shared.
var everywhere = []wrapping.Place{
	{"mcpServers"}, {"mcp_servers"}, {"servers"}, {"context_servers"}, {"extensions"}, {"mcp"}, {"mcp", "servers"}, {"amp.mcpServers"},
	{"projects", "*", "mcpServers"},
}
