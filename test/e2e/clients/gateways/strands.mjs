// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on the Strands Agents SDK.
import { McpClient } from "@strands-agents/sdk";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [server] = process.argv.slice(2);
for (const [command, ...args] of [[server], ["sh", "-c", server]]) {
  const client = new McpClient({ transport: new StdioClientTransport({ command, args }) });
  console.log((await client.listTools()).length);
}
setInterval(() => {}, 1000);
