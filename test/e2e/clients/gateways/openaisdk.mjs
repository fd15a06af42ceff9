// SPDX-License-Identifier: Apache-2.0
// An agent of one's own on the OpenAI Agents SDK.
import { MCPServerStdio } from "@openai/agents";

const [server] = process.argv.slice(2);
for (const fullCommand of [server, `sh -c ${server}`]) {
  const one = new MCPServerStdio({ fullCommand });
  await one.connect();
  console.log((await one.listTools()).length);
}
setInterval(() => {}, 1000);
