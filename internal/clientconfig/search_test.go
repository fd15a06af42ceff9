// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/opened"
)

// A command that asks for configurations in several ways reads a file once. Claude Code's has the history of all
// conversations, and is a list of projects, too.
func TestASearchReadsEachFileOnce(t *testing.T) {
	h := newHome(t)
	h.write("shop/.mcp.json", oneServer)
	h.write(".claude.json", `{"mcpServers": {"git": {"command": "uvx"}}, "projects": {"`+h.path("shop")+`": {}}}`)
	for _, file := range []string{".claude.json", "shop/.mcp.json"} {
		count := opened.Times(t, h.path(file), func() {
			search := NewSearch()
			for range 2 {
				found, err := search.Everywhere()
				if err != nil || len(found.Coverage().Bare) != 1 {
					t.Errorf("%+v (%v)", found.Coverage(), err)
				}
				all, err := search.InAllProjects()
				if err != nil || len(all.Files) != len(found.Files)+1 {
					t.Errorf("%d files in all projects (%v), and %d without", len(all.Files), err, len(found.Files))
				}
			}
		})
		if count != 1 {
			t.Errorf("%s was read %d times", file, count)
		}
	}
}
