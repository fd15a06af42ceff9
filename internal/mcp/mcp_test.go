// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// What clients write first, by what they are.
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

func TestLook(t *testing.T) {
	carried := `{"type":"control_request","request":{"subtype":"mcp_message","message":` + init2025 + `}}`
	for what, c := range map[string]struct {
		in   string
		want Verdict
	}{
		"nothing":                       {"", Undecided},
		"MCP 2025":                      {init2025 + "\n", Server},
		"MCP 2024, other order":         {init2024 + "\n", Server},
		"MCP 2026":                      {discover + "\n", Server},
		"not ended yet":                 {init2025, Server},
		"half of it":                    {init2025[:len(init2025)-1], Undecided},
		"from the middle of a line on":  {`:1}}` + "\n" + announced + "\n", Server},
		"the second message":            {listed + "\n", Server},
		"a batch":                       {"[" + announced + "," + listed + "]\n", Server},
		"a draft":                       {strings.Replace(init2025, "2025-06-18", "DRAFT-2026-v1", 1), Server},
		"LSP":                           {"Content-Length: 180\r\n\r\n" + lspLine, Other},
		"LSP by line":                   {lspLine + "\n", Other},
		"ACP":                           {acp1 + "\n", Other},
		"Codex's app-server":            {codex + "\n", Undecided},
		"an agent's stream":             {stream + "\n", Undecided},
		"MCP within another message":    {carried + "\n", Undecided},
		"MCP within a text":             {`{"jsonrpc":"2.0","method":"session/prompt","params":{"text":` + quote(init2025) + `}}` + "\n", Undecided},
		"text":                          {"hello\nworld\n", Undecided},
		"keys in other letters":         {strings.Replace(init2025, "jsonrpc", "JSONRPC", 1) + "\n", Undecided},
		"another version of JSON-RPC":   {strings.Replace(init2025, `"2.0"`, `"1.0"`, 1) + "\n", Undecided},
		"a ping":                        {`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n", Undecided},
		"an answer":                     {`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", Undecided},
		"a line of no end":              {strings.Repeat("x", LineMost), Other},
		"MCP behind a line that's long": {strings.Repeat("x", LineMost+1) + "\n" + announced + "\n", Server},
	} {
		var s Stream
		got, why := s.Look([]byte(c.in))
		if got != c.want || (got == Undecided) != (why == "") {
			t.Errorf("%s: %v (%s), want %v", what, got, why, c.want)
		}
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a text
	return string(b)
}

func FuzzLook(f *testing.F) {
	for _, line := range []string{init2025, init2024, discover, listed, acp1, acp2, lspLine, codex, control, "Content-Length: 1\r\n\r\n", "[" + listed + "]", "\x00"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Stream
		v, why := s.Look(b)
		if (v == Undecided) != (why == "") || strings.ContainsAny(why, "\n\x1b") {
			t.Errorf("%v for the reason %q", v, why)
		}
		// What comes later does not change it.
		s = Stream{}
		if again, _ := s.Look(append(bytes.Clone(b), "\nhello\n"...)); v == Server && again != Server {
			t.Errorf("with a line behind it: %v", again)
		}
		// Nothing that is carried within a message counts.
		if utf8 := json.Valid(b); utf8 {
			s = Stream{}
			if v, why := s.Look([]byte(`{"type":"x","message":` + string(bytes.ReplaceAll(b, []byte("\n"), []byte(" "))) + "}\n")); v == Server {
				t.Errorf("carried: %s", why)
			}
		}
	})
}
