// SPDX-License-Identifier: Apache-2.0

// Command quick is the server of quickc in Go: a static program with a runtime.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

var results = map[string]string{
	"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"quick","version":"1"}}`,
	"tools/list": `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`,
	"tools/call": `{"content":[{"type":"text","text":"hello"}]}`,
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := results[m.Method]
		if result == "" {
			result = "{}"
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, result)
	}
}
