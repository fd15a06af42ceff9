// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on the Copilot SDK, which starts a runtime that starts the servers.
import { CopilotClient, approveAll } from "@github/copilot-sdk";

const [server] = process.argv.slice(2);
const local = (command, args) => ({ type: "local", command, args, tools: ["*"] });
const client = new CopilotClient({ logLevel: "error" });
const session = await client.createSession({
  model: "x",
  provider: { type: "openai", baseUrl: "http://127.0.0.1:9/v1", apiKey: "x" },
  onPermissionRequest: approveAll,
  mcpServers: { one: local(server, []), two: local("sh", ["-c", server]) },
});
session.send({ prompt: "hello" }).catch(() => {}); // there is no model
console.log("session");
setInterval(() => {}, 1000);
