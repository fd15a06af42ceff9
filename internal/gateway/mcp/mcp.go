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
//
// isOther reports that a line before it is of no message at all, such as a line of a script that has MCP in
// its text. A client of MCP writes nothing but messages.
func Find(unread []byte) (message string, isOther bool) {
	isFirst := true
	for line := range bytes.SplitSeq(unread, []byte("\n")) {
		line = bytes.TrimSpace(line)
		isEnd := isFirst && bytes.HasSuffix(line, []byte("}")) // of a message that was read in part
		isFirst = isFirst && len(line) == 0
		isMessage := len(line) > 0 && (line[0] == '{' || line[0] == '[') // a list of messages
		switch {
		case len(line) > 0 && !isMessage && !isEnd:
			return "", true
		case !isMessage || len(line) > LineMost:
			continue
		}
		message = judge(line)
		if message != "" {
			return message, false
		}
	}
	return "", false
}

// FindAnswer is Find for a server's output: an answer, or a message that only servers send. Its other lines
// may be anything.
func FindAnswer(unread []byte) (message string) {
	for line := range bytes.SplitSeq(unread, []byte("\n")) {
		if len(line) > LineMost {
			continue
		}
		message = judgeAnswer(bytes.TrimSpace(line))
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
	if method == "initialize" && dated(version) && isObject(params["clientInfo"]) {
		return "initialize, MCP " + clip(version)
	}
	if request, known := methods[method]; known && request == (m["id"] != nil) {
		return method
	}
	return ""
}

// judgeAnswer knows the messages that servers send by themselves, and the results that each server has and
// that other protocols do not. LSP's answer to initialize has no protocolVersion, and ACP's has a number.
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
	if dated(version) && isObject(result["serverInfo"]) {
		return "initialize, MCP " + clip(version)
	}
	var versions []string // of MCP 2026-07-28
	if json.Unmarshal(result["supportedVersions"], &versions) == nil && len(versions) > 0 &&
		dated(versions[0]) && isObject(result["capabilities"]) {
		return "server/discover, MCP " + clip(versions[0])
	}
	return judgeLists(result)
}

// judgeLists judges the first elements of a result's lists.
func judgeLists(result object) string {
	content := first(result["content"])
	member, known := contentOf[text(content["type"])]
	contents := first(result["contents"])
	resource := first(result["resources"])
	switch {
	case first(result["tools"])["inputSchema"] != nil:
		return "tools/list"
	case known && content[member] != nil:
		return "tools/call"
	case contents["uri"] != nil && (contents["text"] != nil || contents["blob"] != nil):
		return "resources/read"
	case resource["uri"] != nil && resource["name"] != nil:
		return "resources/list"
	case first(result["resourceTemplates"])["uriTemplate"] != nil:
		return "resources/templates/list"
	}
	return ""
}

// contentOf has a member of each type of content.
var contentOf = map[string]string{
	"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri",
}

// first is the first object of a list, or nil.
func first(list json.RawMessage) object {
	var elements []object
	if json.Unmarshal(list, &elements) != nil || len(elements) == 0 {
		return nil
	}
	return elements[0]
}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte("{")) }

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

// parse returns nil if the line is no message of JSON-RPC 2.0.
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
