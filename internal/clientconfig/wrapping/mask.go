// SPDX-License-Identifier: Apache-2.0

package wrapping

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// Mask returns the text of a file for other people. Of its values it shows the programs of servers, and the
// prefix of mcpscope. A wrap changes no other value, so a line that it changes differs here, too.
func (r Reader) Mask(d *splice.Document) []byte {
	shown := map[*splice.Node]bool{}
	for _, s := range r.Servers(d) {
		nodes := s.words()
		for _, n := range nodes[:s.prefix] {
			shown[n] = true
		}
		isWord := s.prefix < len(nodes) && !strings.ContainsAny(s.Argv[s.prefix], "= \t\r\n")
		if isWord { // and no line of a shell, which can have a key
			shown[nodes[s.prefix]] = true
		}
	}
	return d.Mask(func(n *splice.Node) bool { return shown[n] })
}
