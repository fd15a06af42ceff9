#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// tsgateway is a gateway on the official TypeScript SDK: many servers at a time, each with a client of
// its own, and tools that leave something running. It does what its stdin says, a line each, and prints
// what came of it; the words are those of test/gateway/like.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const clients = new Map();

const orders = {
  async server(name, command, ...args) {
    const client = new Client({ name: "tsgateway", version: "1" });
    const transport = new StdioClientTransport({ command, args });
    await client.connect(transport);
    clients.set(name, client);
    const { tools } = await client.listTools();
    console.log(`server ${name} ${transport.pid} ${tools.length}`);
  },
  async ask(name) {
    await clients.get(name).ping();
    console.log(`answer ${name} ping`);
  },
  async close(name) {
    const start = performance.now();
    await clients.get(name).close();
    console.log(`closed ${name} ${Math.round(performance.now() - start)}`);
  },
  // what it leaves running is wanted
  tool() {
    const tool = spawn("sleep", ["1000"], { stdio: "ignore", detached: true });
    console.log(`tool ${tool.pid}`);
  },
  exit(status) {
    process.exit(Number(status));
  },
};

const group = readFileSync("/proc/self/cgroup", "utf8").split("0::").at(-1).trim();
console.log(`up ${process.pid} ${process.ppid} 0 ${group}`);
for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...args] = line.split(" ");
  try {
    await orders[word](...args);
  } catch (err) {
    console.log(`failed ${line}: ${err.message}`);
  }
}
process.exit(0); // whoever gives orders has gone
