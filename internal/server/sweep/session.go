// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"path"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// withSessions lists a directory of groups and those of the sessions in it, or beside it. An orphan of a
// session may be all that is left of that. The caller closes each.
func withSessions(parent *cgroup.Group) []*cgroup.Group {
	all := []*cgroup.Group{parent}
	around := parent
	if names.IsSession(path.Base(parent.Path())) {
		above, err := parent.Parent()
		if err != nil {
			return all
		}
		all = append(all, above)
		around = above
	}
	children, _ := around.Children() // none, if it was removed
	for _, name := range children {
		if !names.IsSession(name) {
			continue
		}
		session, err := around.Child(name)
		if err != nil {
			continue // it has just been removed
		}
		if session.Same(parent) {
			_ = session.Close() // a directory
			continue
		}
		all = append(all, session)
	}
	return all
}
