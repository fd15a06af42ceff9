# SPDX-License-Identifier: Apache-2.0
# A client on asyncio, as the official Python SDK is one, and as late/main.go is: N MS DIR COMMAND...
import asyncio, glob, json, os, random, sys

n, ms, directory, command = int(sys.argv[1]), int(sys.argv[2]) / 1000, sys.argv[3], sys.argv[4:]


def sleeps(stat):
    try:
        with open(stat) as f:
            return f.read().rpartition(")")[2][1] == "S"
    except OSError:
        return False  # it has just ended


async def until_ready(pid, file):  # each thread of the server has slept at several looks
    asleep = 0
    while asleep < 5:
        await asyncio.sleep(0.01)
        waits = os.path.exists(file) and all(map(sleeps, glob.glob(f"/proc/{pid}/task/*/stat")))
        asleep = asleep + 1 if waits else 0


async def send(server, **message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    await server.stdin.drain()


async def ask(server, number, method, params):
    await send(server, id=number, method=method, params=params)
    await server.stdout.readline()


async def session(server):
    pause = lambda: asyncio.sleep(ms / 2 + random.random() * ms)
    await pause()
    client = {"name": "late", "version": "1"}
    await ask(server, 0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
    await send(server, method="notifications/initialized")
    await ask(server, 1, "tools/list", {})
    for number in range(10):
        await pause()
        await ask(server, 2 + number, "tools/call", {"name": "echo", "arguments": {}})
    await asyncio.sleep(ms)


async def main():
    pipe = asyncio.subprocess.PIPE
    servers = []
    for i in range(n):
        file = os.path.join(directory, str(i))
        servers.append((await asyncio.create_subprocess_exec(*command, file, stdin=pipe, stdout=pipe), file))
    for server, file in servers:
        await until_ready(server.pid, file)
    await asyncio.gather(*(session(server) for server, _ in servers))
    print("done", flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the test ends it
    for server, _ in servers:
        server.stdin.close()
        await server.wait()


asyncio.run(main())
