// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on the AI SDK.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as Stdio } from "@ai-sdk/mcp/mcp-stdio";

const [server] = process.argv.slice(2);
for (const [command, ...args] of [[server], ["sh", "-c", server]]) {
  const client = await createMCPClient({ transport: new Stdio({ command, args }) });
  console.log(Object.keys(await client.tools()).length);
}
setInterval(() => {}, 1000);
