// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on Google's Agent Development Kit.
import { MCPToolset } from "@google/adk";

const [server] = process.argv.slice(2);
for (const [command, ...args] of [[server], ["sh", "-c", server]]) {
  const tools = new MCPToolset({ type: "StdioConnectionParams", serverParams: { command, args } });
  console.log((await tools.getTools()).length);
}
setInterval(() => {}, 1000);
