//go:build linux

package scope

import (
	"fmt"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/resources"
)

// memoryFile is one of the controller that counts memory.
const memoryFile = "memory.current"

// countMemory has the kernel count the payload's memory, where that can be had. It is for a payload
// without members: what they have already stays with the group that it was charged to. In a new group
// it costs least, for then no process has to be moved to the new controller.
func (g *controlGroup) countMemory(from Backend) {
	switch {
	case resources.Try(g.payload, memoryFile, g.ownedAbove(from)):
		_ = g.payload.SetAttr(attrMemory, payloadName) // for people only
	case g.managed && resources.Enabled(g.top, memoryFile):
		_ = g.payload.SetAttr(attrMemory, ".") // as above
	}
}

// memoryGroup is the group whose memory is all that the server has had since its start; nil if there is
// none.
func (g *controlGroup) memoryGroup() *cgroup.Group {
	where, _, _ := g.payload.Attr(attrMemory) // none, if it can't be read
	switch where {
	case payloadName:
		return g.payload
	case ".":
		return g.top
	}
	return nil
}

// MemoryDirectory is the directory whose memory figures are the server's since its start, in the way of
// Directory; "" where the kernel has not counted that from the start. It is the payload's or, where that
// has no controller of its own, that of the scope around it, which has the supervisor in it too.
func (s *Listed) MemoryDirectory() string {
	if s.group == nil {
		return ""
	}
	g := s.group.memoryGroup()
	if g == nil {
		return ""
	}
	return fmt.Sprintf("/proc/self/fd/%d", g.FD())
}
