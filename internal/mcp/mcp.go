// SPDX-License-Identifier: Apache-2.0

// Package mcp recognizes the Model Context Protocol in what a client writes to a server's
// standard input.
//
// It is given bytes that are still unread, and decides whether whoever is to read them is an MCP
// server. The test is narrow: other protocols are JSON-RPC 2.0 as well (LSP, ACP), have lines of
// JSON (agents' own), or carry MCP inside their messages, and a program that is mistaken for a
// server is killed with it. So only what is at the top of a message counts. The package reads no
// descriptor and keeps no input.
package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Verdict is what the input says about the program that is to read it.
type Verdict int

const (
	// Undecided: more input may tell.
	Undecided Verdict = iota
	// Server: it is spoken to in MCP.
	Server
	// Other: it is spoken to in something else.
	Other
)

// LineMost is the length of a line in bytes that is looked at. A pipe holds no more at once.
const LineMost = 64 << 10

const (
	// foreignMost is how many looks may find whole lines of which none can be MCP's.
	foreignMost = 8
	// neutralMost is the same for messages that may be MCP's, such as answers.
	neutralMost = 64
	batchMost   = 64
)

// A Stream is the input of one program. The zero value is one that nothing was seen of.
type Stream struct {
	foreign, neutral int
}

// Look judges what is unread now, which may begin in the middle of a line. why is for people:
// for Server the message that decided, for Other what the input is instead.
func (s *Stream) Look(unread []byte) (v Verdict, why string) {
	if framed(unread) {
		return Other, "messages with a Content-Length header (LSP, DAP)"
	}
	whole, neutral := 0, false
	for rest, first := unread, true; len(rest) > 0; first = false {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		if len(line) > LineMost {
			continue
		}
		kind, why := judgeLine(line)
		switch {
		case kind == kindMCP:
			return Server, why
		case kind == kindOther:
			return Other, why
		case kind == kindNeutral:
			neutral = true
		}
		if ended && !(first && endsMessage(line)) {
			whole++
		}
	}
	switch {
	case neutral:
		s.neutral++
	case whole > 0:
		s.foreign++
	case len(unread) >= LineMost:
		return Other, fmt.Sprintf("no line within %d bytes", LineMost)
	}
	if s.foreign >= foreignMost {
		return Other, "lines that are not JSON-RPC"
	}
	if s.neutral >= neutralMost {
		return Other, "JSON-RPC that is not MCP"
	}
	return Undecided, ""
}

// endsMessage: it may be what is left of a message that is being read. A shell reads one byte at a time, so that
// every look may find a part of its first message.
func endsMessage(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '{' && line[0] != '[' && (line[len(line)-1] == '}' || line[len(line)-1] == ']')
}

// framed: the header comes before the message, so the first bytes tell.
func framed(b []byte) bool {
	for _, header := range []string{"content-length:", "content-type:"} {
		if len(b) >= len(header) && bytes.EqualFold(b[:len(header)], []byte(header)) {
			return true
		}
	}
	return false
}

type kind int

const (
	kindForeign kind = iota // it can't be MCP's
	kindNeutral             // it may be MCP's, and another's
	kindMCP
	kindOther // it opens another protocol
)

// judgeLine takes a line that has not ended as well: many clients write the newline separately,
// and an object says by itself where it ends.
func judgeLine(line []byte) (kind, string) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return kindForeign, ""
	}
	switch line[0] {
	case '{':
		return judgeMessage(line)
	case '[': // a batch, which MCP had in 2025-03-26
		var batch []json.RawMessage
		if !mentionsRPC(line) || json.Unmarshal(line, &batch) != nil {
			return kindForeign, ""
		}
		best := kindForeign
		for _, m := range batch[:min(len(batch), batchMost)] {
			k, why := judgeMessage(bytes.TrimSpace(m))
			if k == kindMCP || k == kindOther {
				return k, why
			}
			best = max(best, k)
		}
		return best, ""
	}
	return kindForeign, ""
}

// mentionsRPC is cheaper than to parse what can't be a message.
func mentionsRPC(b []byte) bool { return bytes.Contains(b, []byte(`"jsonrpc"`)) }

// object is one by its exact keys: a struct's field would match in any case.
type object = map[string]json.RawMessage

func judgeMessage(b []byte) (kind, string) {
	var m object
	if len(b) == 0 || b[0] != '{' || !mentionsRPC(b) || json.Unmarshal(b, &m) != nil || text(m["jsonrpc"]) != "2.0" {
		return kindForeign, ""
	}
	method := text(m["method"])
	var params object
	if raw, there := m["params"]; there && json.Unmarshal(raw, &params) != nil {
		return kindNeutral, "" // a list, which JSON-RPC allows and MCP does not
	}
	// Since 2026-07-28 there is no initialize: every request says its version.
	var meta object
	if json.Unmarshal(params["_meta"], &meta) == nil {
		if version := text(meta["io.modelcontextprotocol/protocolVersion"]); version != "" {
			return kindMCP, fmt.Sprintf("%s, MCP %s", clip(method), clip(version))
		}
	}
	if method == "initialize" {
		return judgeInitialize(params)
	}
	if shape, known := methods[method]; known && shape == (m["id"] != nil) {
		return kindMCP, method
	}
	return kindNeutral, ""
}

// judgeInitialize: LSP has a request of this name, and so has ACP, whose version is a number.
func judgeInitialize(params object) (kind, string) {
	version := text(params["protocolVersion"])
	if dated(version) && isObject(params["clientInfo"]) {
		return kindMCP, "initialize, MCP " + clip(version)
	}
	switch {
	case params["protocolVersion"] != nil && version == "":
		return kindOther, "initialize of the Agent Client Protocol"
	case params["protocolVersion"] == nil:
		return kindOther, "initialize of another protocol (LSP by line)"
	}
	return kindNeutral, ""
}

// methods are those that only MCP has and a client sends early; true is a request. They tell when
// the first message was missed.
var methods = map[string]bool{
	"notifications/initialized": false,
	"tools/list":                true,
	"tools/call":                true,
	"prompts/list":              true,
	"resources/list":            true,
	"resources/templates/list":  true,
	"logging/setLevel":          true,
}

// dated: MCP's versions are dates, and drafts begin with a word.
func dated(version string) bool {
	if len(version) > len("DRAFT-") && version[:len("DRAFT-")] == "DRAFT-" {
		return true
	}
	const shape = "dddd-dd-dd"
	if len(version) < len(shape) {
		return false
	}
	for i := range len(shape) {
		digit := version[i] >= '0' && version[i] <= '9'
		if (shape[i] == 'd') != digit || shape[i] == '-' && version[i] != '-' {
			return false
		}
	}
	return true
}

func text(raw json.RawMessage) (s string) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// clip bounds what somebody else has written, and quotes it if it is more than a word.
func clip(s string) string {
	const most = 48
	if len(s) > most {
		s = s[:most]
	}
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}
