// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on the MCP adapters of LangChain.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";

const [server] = process.argv.slice(2);
const mcpServers = { one: { command: server, args: [] }, two: { command: "sh", args: ["-c", server] } };
console.log((await new MultiServerMCPClient({ mcpServers }).getTools()).length);
setInterval(() => {}, 1000);
