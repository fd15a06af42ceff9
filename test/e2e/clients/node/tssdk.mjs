#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// tssdk is the test client on the official TypeScript SDK; what it prints and
// waits for is the contract of package contract.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

// The tools that need nothing but a server that works, in the order of
// preference; the same table as in contract.go.
const calls = [
  ["echo", { message: "hello" }],
  ["list_directory", { path: "." }],
  ["read_graph", {}],
];

function parse(argv) {
  const end = argv.indexOf("--");
  if (end < 0 || end + 1 === argv.length) {
    console.error("usage: tssdk [--kill-after-list] -- COMMAND [ARG...]");
    process.exit(2);
  }
  const [command, ...args] = argv.slice(end + 1);
  return { killAfterList: argv.slice(0, end).includes("--kill-after-list"), command, args };
}

// line writes synchronously enough for the SIGKILL that may follow it: the
// callback runs once the line is in the pipe.
function line(text) {
  return new Promise((resolve) => process.stdout.write(text + "\n", resolve));
}

async function call(client, tools) {
  const names = new Set(tools.map((tool) => tool.name));
  const [name, input] = calls.find(([tool]) => names.has(tool));
  const { isError, content } = await client.callTool({ name, arguments: input });
  const text = content.map((part) => part.text ?? "").join("");
  await line(JSON.stringify({ tools: tools.length, call: isError ? "error" : "ok", text }));
}

async function main() {
  const { killAfterList, command, args } = parse(process.argv.slice(2));
  const client = new Client({ name: "tssdk", version: "1" });
  await client.connect(new StdioClientTransport({ command, args }));

  const { tools } = await client.listTools();
  if (killAfterList) {
    await line(JSON.stringify({ tools: tools.length }));
    process.kill(process.pid, "SIGKILL");
  }
  await call(client, tools);
  for await (const order of createInterface({ input: process.stdin })) {
    if (order === "call") await call(client, (await client.listTools()).tools);
    if (order !== "close") continue;
    const start = performance.now();
    await client.close();
    await line(`closed ${Math.round(performance.now() - start)}`);
    process.exit(0);
  }
  // The driver is gone: end as a client does that was never told to close.
  process.exit(0);
}

main().catch((err) => {
  console.error(`tssdk: ${err.stack}`);
  process.exit(1);
});
