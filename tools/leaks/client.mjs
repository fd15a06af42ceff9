// SPDX-License-Identifier: Apache-2.0
// client is an MCP client on the official TypeScript SDK, with what the SDK does by default. It starts a server, calls
// tools as told by its first argument, says "ready" on stdout, and waits until something ends it.
//
//   client '[["tool", {"argument": 1}], …]' COMMAND [ARG…]
//
// A third member of a call means that it goes on: its answer is not waited for.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [calls, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "leaks", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
await client.listTools();
for (const [name, input, goesOn] of JSON.parse(calls)) {
  if (goesOn) {
    client.callTool({ name, arguments: input });
    continue;
  }
  const { isError, content } = await client.callTool({ name, arguments: input });
  if (isError) throw new Error(`${name}: ${JSON.stringify(content)}`);
}
console.log("ready");
setInterval(() => {}, 1 << 30);
