// SPDX-License-Identifier: Apache-2.0
// A client on the official TypeScript SDK, as late/main.go is one: N MS DIR COMMAND...
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [n, ms, dir, command, ...args] = process.argv.slice(2);

const sleeps = (task) => {
  try {
    const text = readFileSync(join(task, "stat"), "utf8");
    return text[text.lastIndexOf(")") + 2] === "S";
  } catch {
    return false; // it has just ended
  }
};

// each thread of the server has slept at several looks
async function untilReady(pid, file) {
  for (let asleep = 0; asleep < 5; ) {
    await sleep(10);
    const tasks = `/proc/${pid}/task`;
    asleep = existsSync(file) && readdirSync(tasks).every((tid) => sleeps(join(tasks, tid))) ? asleep + 1 : 0;
  }
}

// the SDK writes initialize when this returns
class Late extends StdioClientTransport {
  constructor(number, file, ready) {
    super({ command, args: [...args, file] });
    this.file = file;
    this.ready = ready;
  }
  async start() {
    await super.start();
    await untilReady(this.pid, this.file);
    await this.ready();
  }
}

const pause = () => sleep(ms / 2 + Math.random() * ms);
let waiting = 0;
let go;
const all = new Promise((resolve) => (go = resolve));
const ready = async () => {
  if (++waiting === Number(n)) go();
  await all;
  await pause();
};

const clients = await Promise.all(
  Array.from({ length: Number(n) }, async (_, i) => {
    const client = new Client({ name: "late", version: "1" });
    await client.connect(new Late(i, join(dir, String(i)), ready));
    await client.listTools();
    for (let call = 0; call < 10; call++) {
      await pause();
      await client.callTool({ name: "echo", arguments: {} });
    }
    await sleep(Number(ms));
    return client;
  }),
);
console.log("done");
for await (const _ of process.stdin); // until the test ends it
await Promise.all(clients.map((client) => client.close()));
process.exit(0);
