# SPDX-License-Identifier: Apache-2.0
# A server that reads as the official Python SDK does, in a thread: FILE is made when it is about to read.
import json, sys, threading

ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "late", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "echo", "description": "Echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "echo"}]},
}


def serve():
    open(sys.argv[1], "w").close()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]}
            print(json.dumps(answer), flush=True)


thread = threading.Thread(target=serve)
thread.start()
thread.join()
