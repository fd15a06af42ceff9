// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on Genkit.
import { genkit } from "genkit";
import { createMcpHost } from "@genkit-ai/mcp";

const [server] = process.argv.slice(2);
const mcpServers = { one: { command: server, args: [] }, two: { command: "sh", args: ["-c", server] } };
const host = createMcpHost({ name: "host", mcpServers });
console.log((await host.getActiveTools(genkit({}))).length);
setInterval(() => {}, 1000);
