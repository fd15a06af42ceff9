// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"path"
	"strings"
)

// Origin says whose a server is, beside its client. A process of its user may have written any text.
type Origin struct {
	// Project is the base name of the directory that the server was started in: agents start servers in the
	// directory of the project. It is "" for the root directory.
	Project string `json:"project,omitempty"`
	// Conversation is the client's id of that in the environment of its servers; "" without one.
	Conversation string `json:"conversation,omitempty"`
}

// conversationVariable is the only variable of a server that is read: others may be secrets.
const conversationVariable = "CLAUDE_CODE_SESSION_ID"

// originMost bounds each text, in bytes.
const originMost = 64

// OriginOf returns the origin of a server by its directory, "" if that is not known, and its environment.
func OriginOf(dir string, env []string) (o Origin) {
	if dir != "" && dir != "/" {
		o.Project = clip(path.Base(dir))
	}
	for _, entry := range env {
		key, value, _ := strings.Cut(entry, "=")
		if key == conversationVariable {
			o.Conversation = clip(value)
		}
	}
	return o
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), originMost)], "") }
