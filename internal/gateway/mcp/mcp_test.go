// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// The first messages of clients.
const (
	init2025  = `{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}},"jsonrpc":"2.0","id":0}`
	init2024  = `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"clientInfo":{},"capabilities":{"roots":{}},"protocolVersion":"2024-11-05"}}`
	discover  = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	listed    = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	announced = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	acp1      = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true}}}}`
	acp2      = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"capabilities":{},"clientInfo":{"name":"zed","version":"1"}}}`
	lspLine   = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":1,"rootUri":null,"clientInfo":{"name":"x"},"capabilities":{}}}`
	codex     = `{"id":0,"method":"initialize","params":{"clientInfo":{"name":"codex_vscode","version":"0.1"}}}`
	stream    = `{"type":"user","message":{"role":"user","content":"hello"}}`
	control   = `{"type":"control_request","request_id":"1","request":{"subtype":"initialize","hooks":null}}`
)

func TestFind(t *testing.T) {
	carried := `{"type":"control_request","request":{"subtype":"mcp_message","message":` + init2025 + `}}`
	for what, c := range map[string]struct {
		in   string
		want bool
	}{
		"nothing":                       {"", false},
		"MCP 2025":                      {init2025 + "\n", true},
		"MCP 2024, other order":         {init2024 + "\n", true},
		"MCP 2026":                      {discover + "\n", true},
		"not ended yet":                 {init2025, true},
		"half of it":                    {init2025[:len(init2025)-1], false},
		"from the middle of a line on":  {`:1}}` + "\n" + announced + "\n", true},
		"the second message":            {listed + "\n", true},
		"a draft":                       {strings.Replace(init2025, "2025-06-18", "DRAFT-2026-v1", 1), true},
		"LSP":                           {"Content-Length: 180\r\n\r\n" + lspLine, false},
		"LSP by line":                   {lspLine + "\n", false},
		"ACP":                           {acp1 + "\n", false},
		"ACP 2":                         {acp2 + "\n", false},
		"Codex's app-server":            {codex + "\n", false},
		"an agent's stream":             {stream + "\n" + control + "\n", false},
		"MCP within another message":    {carried + "\n", false},
		"MCP within a text":             {`{"jsonrpc":"2.0","method":"session/prompt","params":{"text":` + quote(init2025) + `}}` + "\n", false},
		"text":                          {"hello\nworld\n", false},
		"keys in other letters":         {strings.Replace(init2025, "jsonrpc", "JSONRPC", 1) + "\n", false},
		"another version of JSON-RPC":   {strings.Replace(init2025, `"2.0"`, `"1.0"`, 1) + "\n", false},
		"a ping":                        {`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n", false},
		"an answer":                     {`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", false},
		"a request with a list":         {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}` + "\n", false},
		"MCP behind a line that's long": {strings.Repeat("x", LineMost+1) + "}\n" + announced + "\n", true},
		"MCP in a script":               {"cat <<'EOF'\n" + init2025 + "\nEOF\n", false},
		"MCP in a script of Python":     {"X = \"\"\"\n" + listed + "\n\"\"\"\n", false},
		"lines without text before it":  {"\n\r\n" + init2025 + "\n", true},
	} {
		if got, _ := Find([]byte(c.in)); (got != "") != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// An input that has anything but messages is no client's.
func TestFindOther(t *testing.T) {
	for in, want := range map[string]bool{
		"": false, "\n": false, "hello\n": true, "echo {}\n" + init2025: false, "set -e\n" + init2025: true, stream: false,
		`{"half`: false, `half"}`: false, `[{"a":1}]`: false, stream + "\nhello": true, "Content-Length: 9\r\n\r\n{}": true,
	} {
		if message, isOther := Find([]byte(in)); isOther != want || isOther && message != "" {
			t.Errorf("%q: %q, %v", in, message, isOther)
		}
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a text
	return string(b)
}

func FuzzFind(f *testing.F) {
	for _, line := range []string{init2025, init2024, discover, listed, acp1, acp2, lspLine, codex, control, "[" + listed + "]", "\x00"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		found, _ := Find(b)
		if strings.ContainsAny(found, "\n\x1b") {
			t.Errorf("found %q", found)
		}
		if again, _ := Find(append(bytes.Clone(b), "\nhello\n"...)); again != found {
			t.Errorf("found %q, and with a line behind it %q", found, again)
		}
		if json.Valid(b) { // nothing that is carried within a message counts
			one := bytes.ReplaceAll(b, []byte("\n"), []byte(" "))
			if found, _ := Find([]byte(`{"type":"x","message":` + string(one) + "}\n")); found != "" {
				t.Errorf("carried: %s", found)
			}
		}
	})
}

func result(members string) string {
	return `{"jsonrpc":"2.0","id":7,"result":{` + members + `}}` + "\n"
}

// A server's output shows it, too, where its client's message was read too early.
func TestFindAnswer(t *testing.T) {
	const tool = `{"name":"a","inputSchema":{"type":"object"}}`
	for what, c := range map[string]struct {
		in   string
		want bool
	}{
		"nothing":          {"", false},
		"initialize":       {`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s"}}}`, true},
		"tools":            {`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + tool + `]}}` + "\n", true},
		"no tools":         {`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, false},
		"other tools":      {`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"hammer"}]}}`, false},
		"a change":         {`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, true},
		"roots":            {`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`, true},
		"a request":        {init2025, false},
		"LSP's initialize": {`{"jsonrpc":"2.0","id":1,"result":{"capabilities":{},"serverInfo":{"name":"gopls"}}}`, false},
		"ACP's initialize": {`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}`, false},
		"behind a log":     {"starting\n" + `{"jsonrpc":"2.0","id":1,"result":{"tools":[` + tool + `]}}` + "\n", true},
		"another protocol": {`{"id":1,"result":{"tools":[` + tool + `]}}`, false},
		"a tool's text":    {result(`"content":[{"type":"text","text":"x"}],"isError":false`), true},
		"a tool's image":   {result(`"content":[{"type":"image","data":"eA==","mimeType":"image/png"}]`), true},
		"a tool's link":    {result(`"content":[{"type":"resource_link","uri":"file:///x","name":"x"}]`), true},
		"a tool's file":    {result(`"content":[{"type":"resource","resource":{"uri":"file:///x","text":"x"}}]`), true},
		"nothing of it":    {result(`"content":[]`), false},
		"a file in ACP":    {result(`"content":"text"`), false},
		"other content":    {result(`"content":[{"type":"div","text":"x"}]`), false},
		"an empty key":     {result(`"content":[{"type":"div","":1}]`), false},
		"a text without":   {result(`"content":[{"type":"text","value":"x"}]`), false},
		"LSP's hover":      {result(`"contents":{"kind":"markdown","value":"x"}`), false},
		"LSP's old hover":  {result(`"contents":[{"language":"go","value":"x"}]`), false},
		"a resource":       {result(`"contents":[{"uri":"file:///x","mimeType":"text/plain","text":"x"}]`), true},
		"resources":        {result(`"resources":[{"uri":"file:///x","name":"x"}]`), true},
		"other resources":  {result(`"resources":[{"name":"x"}]`), false},
		"templates":        {result(`"resourceTemplates":[{"uriTemplate":"file:///{x}","name":"x"}]`), true},
		"MCP 2026":         {result(`"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}`), true},
		"other versions":   {result(`"supportedVersions":["1.0"],"capabilities":{}`), false},
		"only versions":    {result(`"supportedVersions":["2026-07-28"]`), false},
	} {
		if got := FindAnswer([]byte(c.in)); (got != "") != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}
