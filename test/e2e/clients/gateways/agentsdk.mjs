// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on the Claude Agent SDK, which starts a runtime that starts the servers.
import { query } from "@anthropic-ai/claude-agent-sdk";

const [server] = process.argv.slice(2);
const mcpServers = { one: { command: server, args: [] }, two: { command: "sh", args: ["-c", server] } };
for await (const message of query({ prompt: "hello", options: { mcpServers } })) {
  if (message.type === "system" && message.subtype === "init") {
    console.log(message.mcp_servers.map(({ name, status }) => `${name} ${status}`).sort().join(", "));
  }
}
