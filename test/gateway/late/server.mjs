// SPDX-License-Identifier: Apache-2.0
// A server that reads as the official TypeScript SDK does: FILE is made when it is about to read.
import { writeFileSync } from "node:fs";

const answers = {
  initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "late", version: "1" } },
  "tools/list": { tools: [{ name: "echo", description: "Echo", inputSchema: { type: "object" } }] },
  "tools/call": { content: [{ type: "text", text: "echo" }] },
};
let unread = "";
process.stdin.on("data", (chunk) => {
  const lines = (unread + chunk).split("\n");
  unread = lines.pop();
  for (const line of lines) {
    const { id, method } = JSON.parse(line);
    if (id === undefined) continue;
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method] }) + "\n");
  }
});
process.stdin.on("end", () => process.exit(0));
setImmediate(() => writeFileSync(process.argv[2], ""));
