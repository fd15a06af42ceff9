// SPDX-License-Identifier: Apache-2.0

// Package mcp recognizes the Model Context Protocol in the input of a server.
//
// The test is narrow: other protocols are JSON-RPC 2.0 as well (LSP, ACP), have lines of JSON (agents' own),
// or carry MCP inside their messages, and a program that is mistaken for a server is killed with it. So only
// the top level of a message counts. The package reads no descriptor and keeps no input.
package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// LineMost is the length in bytes of the longest line that is parsed. A pipe holds no more at once.
const LineMost = 64 << 10

// Find returns the name of the first MCP message in the input, or "". The input may begin in the middle of a
// line. The last line need not be complete: many clients write the newline separately, and an object has its
// own end.
func Find(unread []byte) (message string) { return find(unread, judge) }

// FindAnswer is Find for what a server has written: an answer, or a message that only servers send.
func FindAnswer(unread []byte) (message string) { return find(unread, judgeAnswer) }

func find(unread []byte, judge func(line []byte) string) (message string) {
	for line := range bytes.SplitSeq(unread, []byte("\n")) {
		if len(line) > LineMost {
			continue
		}
		message = judge(bytes.TrimSpace(line))
		if message != "" {
			return message
		}
	}
	return ""
}

// object has its exact keys: a struct's field would match in any case.
type object = map[string]json.RawMessage

func judge(line []byte) string {
	var params, meta object
	m := parse(line)
	if m == nil {
		return ""
	}
	if raw, some := m["params"]; some && json.Unmarshal(raw, &params) != nil {
		return "" // a list, which JSON-RPC allows and MCP does not
	}
	method := text(m["method"])
	// MCP 2026-07-28 has no initialize: every request has the version.
	if json.Unmarshal(params["_meta"], &meta) == nil {
		if version := text(meta["io.modelcontextprotocol/protocolVersion"]); version != "" {
			return fmt.Sprintf("%s, MCP %s", clip(method), clip(version))
		}
	}
	// LSP has an initialize too, and so has ACP, whose version is a number.
	version := text(params["protocolVersion"])
	if method == "initialize" && dated(version) && bytes.HasPrefix(params["clientInfo"], []byte("{")) {
		return "initialize, MCP " + clip(version)
	}
	if request, known := methods[method]; known && request == (m["id"] != nil) {
		return method
	}
	return ""
}

// judgeAnswer knows the answers to initialize and tools/list, which each client asks for, and what servers
// send by themselves. LSP's answer to initialize has no protocolVersion, and ACP's has a number.
func judgeAnswer(line []byte) string {
	m := parse(line)
	if m == nil {
		return ""
	}
	if method := text(m["method"]); serverMethods[method] {
		return method
	}
	var result object
	if json.Unmarshal(m["result"], &result) != nil {
		return ""
	}
	version := text(result["protocolVersion"])
	if dated(version) && bytes.HasPrefix(result["serverInfo"], []byte("{")) {
		return "initialize, MCP " + clip(version)
	}
	var tools []object
	if json.Unmarshal(result["tools"], &tools) == nil && len(tools) > 0 && tools[0]["inputSchema"] != nil {
		return "tools/list"
	}
	return ""
}

// serverMethods are of messages that a server sends, and that exist in MCP only.
var serverMethods = map[string]bool{
	"roots/list":                           true,
	"sampling/createMessage":               true,
	"elicitation/create":                   true,
	"notifications/tools/list_changed":     true,
	"notifications/prompts/list_changed":   true,
	"notifications/resources/list_changed": true,
	"notifications/resources/updated":      true,
}

// parse returns nil for what is no message of JSON-RPC 2.0.
func parse(line []byte) (m object) {
	if len(line) == 0 || line[0] != '{' || !bytes.Contains(line, []byte(`"jsonrpc"`)) {
		return nil // cheaper than to parse it
	}
	if json.Unmarshal(line, &m) != nil || text(m["jsonrpc"]) != "2.0" {
		return nil
	}
	return m
}

// methods exist in MCP only, and clients use them early: true is a request. They show a server whose first
// message was missed.
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
	_, err := time.Parse(time.DateOnly, version[:min(len(version), len(time.DateOnly))])
	return err == nil || strings.HasPrefix(version, "DRAFT-")
}

func text(raw json.RawMessage) (s string) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// clip bounds what another program has written, and quotes it if it is more than a word.
func clip(s string) string {
	s = s[:min(len(s), 48)]
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}
