// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on Mastra.
import { MCPClient } from "@mastra/mcp";

const [server] = process.argv.slice(2);
const client = new MCPClient({ servers: { one: { command: server, args: [] }, two: { command: "sh", args: ["-c", server] } } });
console.log(Object.keys(await client.getTools()).length);
setInterval(() => {}, 1000);
