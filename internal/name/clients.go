// SPDX-License-Identifier: Apache-2.0

package name

import (
	"cmp"
	"iter"
	"maps"
	"path"
	"strings"
)

// clientPrograms are the clients, as `mcpscope wrap` calls them, of programs that have other names.
var clientPrograms = map[string]string{
	"auggie":         "augment",
	"claude":         "claude-code",
	"cn":             "continue",
	"code":           "vscode",
	"cursor-agent":   "cursor",
	"droid":          "factory",
	"gemini-cli":     "gemini",
	"hermes-agent":   "hermes",
	"hermes-gateway": "hermes",
	"kiro-cli":       "kiro",
	"qodercli":       "qoder",
	"qwen-code":      "qwen",
}

// ClientPrograms are the programs that are not called as their client is, each with that.
func ClientPrograms() iter.Seq2[string, string] { return maps.All(clientPrograms) }

// ClientOf returns the client that a program is, as `mcpscope wrap` calls it. A program without another name
// there is called as it is.
func ClientOf(program string) string {
	program = strings.ToLower(path.Base(program))
	return cmp.Or(clientPrograms[program], program)
}
