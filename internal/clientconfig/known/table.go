// SPDX-License-Identifier: Apache-2.0

package known

import "github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"

const (
	clineSettings = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
	rooSettings   = "globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
	zooSettings   = "globalStorage/zoocodeorganization.zoo-code/settings/mcp_settings.json"
)

// All returns the known clients. A variable would slow down every start of the program.
func All() []Client {
	mcpServers := place("mcpServers")
	underscored := place("mcp_servers")
	servers := place("servers")
	mcp := place("mcp")
	devContainer := place("customizations", "vscode", "mcp", "servers")
	return []Client{
		{"claude-code", "Claude Code", []pattern{
			in("~", ".claude.json", []wrapping.Place{{"mcpServers"}, {"projects", "*", "mcpServers"}}).
				or("CLAUDE_CONFIG_DIR"),
			in(project, ".mcp.json", mcpServers),
			in("~/.claude", "plugins/cache/*/*/*/.mcp.json", mcpServers).
				or("CLAUDE_CONFIG_DIR").leftAlone(plugin),
			in("/etc/claude-code", "managed-mcp.json", mcpServers).leftAlone(managed),
		}},
		{"claude-desktop", "Claude Desktop", []pattern{
			in("~/.config", "[Cc]laude/claude_desktop_config.json", mcpServers).or(config),
		}},
		{"codex", "Codex", []pattern{
			in("~/.codex", "config.toml", underscored).or("CODEX_HOME"),
			in("~/.codex", "*.config.toml", underscored).or("CODEX_HOME"),
			in(project, ".codex/config.toml", underscored),
			in("/etc/codex", "*config.toml", underscored).leftAlone(managed),
		}},
		{"cursor", "Cursor", []pattern{
			in("~/.cursor", "mcp.json", mcpServers),
			in(project, ".cursor/mcp.json", mcpServers),
		}},
		{"vscode", "VS Code", []pattern{
			in("~/.config", "Code*/User/mcp.json", servers).or(config),
			in("~/.config", "VSCodium/User/mcp.json", servers).or(config),
			in("~/.config", "Code*/User/profiles/*/mcp.json", servers).or(config),
			in("~/.config", "Code*/User/settings.json", place("mcp", "servers")).or(config),
			in("~", ".vscode-server*/data/User/mcp.json", servers),
			in("~/.var/app", "com.visualstudio.code/config/Code/User/mcp.json", servers).leftAlone(flatpak),
			in(project, ".vscode/mcp.json", servers),
		}},
		{"devcontainer", "Dev Containers", []pattern{
			in(project, ".devcontainer/devcontainer.json", devContainer).leftAlone(inside),
			in(project, ".devcontainer.json", devContainer).leftAlone(inside),
		}},
		{"windsurf", "Windsurf", []pattern{
			in("~/.codeium", "windsurf*/mcp_config.json", mcpServers),
		}},
		{"zed", "Zed", []pattern{
			in("~/.config", "zed/settings.json", place("context_servers")).or(config),
			in("~/.var/app/dev.zed.Zed/config", "zed/settings.json", place("context_servers")),
			in(project, ".zed/settings.json", place("context_servers")),
		}},
		{"gemini", "Gemini CLI", []pattern{
			in("~/.gemini", "settings.json", mcpServers),
			in(project, ".gemini/settings.json", mcpServers),
			in("~/.gemini", "extensions/*/gemini-extension.json", mcpServers).leftAlone(plugin),
			in("/etc/gemini-cli", "settings.json", mcpServers).leftAlone(managed),
		}},
		{"qwen", "Qwen Code", []pattern{
			in("~/.qwen", "settings.json", mcpServers),
			in(project, ".qwen/settings.json", mcpServers),
			in("~/.qwen", "extensions/*/qwen-extension.json", mcpServers).leftAlone(plugin),
			in("/etc/qwen-code", "settings.json", mcpServers).leftAlone(managed),
		}},
		{"mcporter", "mcporter", []pattern{
			in("~/.mcporter", "mcporter.json", mcpServers),
			in("~/.mcporter", "mcporter.jsonc", mcpServers),
			in(project, "config/mcporter.json", mcpServers),
		}},
		{"copilot", "Copilot CLI", []pattern{
			in("~/.copilot", "mcp-config.json", mcpServers).or("COPILOT_HOME"),
			in("~/.config", "copilot/mcp-config.json", mcpServers).or(config),
		}},
		{"goose", "Goose", []pattern{
			in("~/.config", "goose/config.yaml", place("extensions")).or(config),
		}},
		{"hermes", "Hermes", []pattern{
			in("~/.hermes", "config.yaml", underscored).or("HERMES_HOME"),
			in("~/.hermes", "profiles/*/config.yaml", underscored).or("HERMES_HOME"),
		}},
		{"cline", "Cline", []pattern{
			in("~/.config", "*/User/"+clineSettings, mcpServers).or(config),
			in("~", ".*-server*/data/User/"+clineSettings, mcpServers),
			in("~/.cline", "data/settings/cline_mcp_settings.json", mcpServers),
		}},
		{"continue", "Continue", []pattern{
			in("~/.continue", "config.yaml", mcpServers),
			in("~/.continue", "mcpServers/*.y*ml", mcpServers),
			in(project, ".continue/mcpServers/*.y*ml", mcpServers),
			in(project, ".continue/mcpServers/*.json", mcpServers),
		}},
		{"librechat", "LibreChat", []pattern{
			in(project, "librechat.yaml", mcpServers),
		}},
		{"opencode", "opencode", []pattern{
			in("~/.config", "opencode/opencode.json", mcp).or(config),
			in("~/.config", "opencode/opencode.jsonc", mcp).or(config),
			in("~/.config", "opencode/config.json", mcp).or(config),
			in(project, "opencode.json", mcp),
			in(project, "opencode.jsonc", mcp),
			in(project, ".opencode/opencode.json", mcp),
			in(project, ".opencode/opencode.jsonc", mcp),
		}},
		{"crush", "Crush", []pattern{
			in("~/.config", "crush/crush.json", mcp).or(config),
			in(project, ".crush.json", mcp),
			in(project, "crush.json", mcp),
		}},
		{"kiro", "Kiro", []pattern{
			in("~/.kiro", "settings/mcp.json", mcpServers),
			in(project, ".kiro/settings/mcp.json", mcpServers),
		}},
		{"lmstudio", "LM Studio", []pattern{
			in("~/.lmstudio", "mcp.json", mcpServers),
		}},
		{"amp", "Amp", []pattern{
			in("~/.config", "amp/settings.json", place("amp.mcpServers")).or(config),
			in("~/.config", "amp/settings.jsonc", place("amp.mcpServers")).or(config),
			in(project, ".amp/settings.json", place("amp.mcpServers")),
			in(project, ".amp/settings.jsonc", place("amp.mcpServers")),
		}},
		{"vibe", "Mistral Vibe", []pattern{
			in("~/.vibe", "config.toml", underscored).or("VIBE_HOME"),
			in(project, ".vibe/config.toml", underscored),
		}},
		{"1mcp", "1mcp", []pattern{
			in("~/.config", "1mcp/mcp.json", mcpServers).or(config),
		}},
		{"antigravity", "Antigravity", []pattern{
			in("~/.gemini", "config/mcp_config.json", mcpServers),
			in(project, ".agents/mcp_config.json", mcpServers),
		}},
		{"kilo", "Kilo Code", []pattern{
			in("~/.config", "kilo/kilo.json", mcp).or(config),
			in("~/.config", "kilo/kilo.jsonc", mcp).or(config),
			in("~/.kilocode", "cli/global/settings/mcp_settings.json", mcpServers),
			in(project, "kilo.json", mcp),
			in(project, "kilo.jsonc", mcp),
			in(project, ".kilo/kilo.json", mcp),
			in(project, ".kilo/kilo.jsonc", mcp),
			in(project, ".kilocode/mcp.json", mcpServers),
		}},
		{"kimi", "Kimi", []pattern{
			in("~/.kimi", "mcp.json", mcpServers).or("KIMI_SHARE_DIR"),
			in("~/.kimi-code", "mcp.json", mcpServers).or("KIMI_CODE_HOME"),
			in(project, ".kimi-code/mcp.json", mcpServers),
		}},
		{"factory", "Factory", []pattern{
			in("~/.factory", "mcp.json", mcpServers),
			in(project, ".factory/mcp.json", mcpServers),
		}},
		{"qoder", "Qoder", []pattern{
			in("~/.qoder", "settings.json", mcpServers),
			in(project, ".qoder/settings.local.json", mcpServers),
		}},
		{"trae", "Trae", []pattern{
			in("~/.config", "Trae*/User/mcp.json", mcpServers).or(config),
			in(project, ".trae/mcp.json", mcpServers),
		}},
		{"openclaw", "OpenClaw", []pattern{
			in("~/.openclaw", "openclaw.json", place("mcp", "servers")).or("OPENCLAW_STATE_DIR"),
		}},
		{"augment", "Augment", []pattern{
			in("~/.augment", "settings.json", mcpServers),
			in(project, ".augment/settings.json", mcpServers),
			in(project, ".augment/settings.local.json", mcpServers),
		}},
		{"junie", "Junie", []pattern{
			in("~/.junie", "mcp/mcp.json", mcpServers),
			in(project, ".junie/mcp/mcp.json", mcpServers),
		}},
		{"jetbrains", "JetBrains AI Assistant", []pattern{
			in("~/.ai", "mcp/mcp.json", mcpServers),
			in(project, ".ai/mcp/mcp.json", mcpServers),
		}},
		{"jan", "Jan", []pattern{
			in("~/.local/share", "Jan/data/mcp_config.json", mcpServers).or("XDG_DATA_HOME"),
			in("~/.var/app", "ai.jan.Jan/data/Jan/data/mcp_config.json", mcpServers).leftAlone(flatpak),
		}},
		{"roo", "Roo Code", []pattern{
			in("~/.config", "*/User/"+rooSettings, mcpServers).or(config),
			in("~", ".*-server*/data/User/"+rooSettings, mcpServers),
			in(project, ".roo/mcp.json", mcpServers),
		}},
		{"zoo", "Zoo Code", []pattern{
			in("~/.config", "*/User/"+zooSettings, mcpServers).or(config),
			in("~", ".*-server*/data/User/"+zooSettings, mcpServers),
			in(project, ".zoo/mcp.json", mcpServers),
		}},
	}
}

// everywhere lists the places of servers in a file of no known client: of mcpo, of mcp-proxy, or a shared
// file.
var everywhere = []wrapping.Place{
	{"mcpServers"}, {"mcp_servers"}, {"servers"}, {"context_servers"}, {"extensions"}, {"mcp"},
	{"mcp", "servers"}, {"amp.mcpServers"}, {"projects", "*", "mcpServers"},
}
