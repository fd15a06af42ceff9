// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"
	"regexp"
	"slices"
)

// subject is what a call is about: without what differs from run to run.
func subject(n notification, c call) string {
	switch {
	case c.about == none:
		return ""
	case c.about >= fd(0):
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.TID, int32(n.Args[c.about-fd(0)]))) // "" for one that is closed
		return anonymous(path)
	}
	text := memory(n.TID, n.Args[c.about], 256)
	if end := slices.Index(text, 0); end >= 0 {
		text = text[:end]
	}
	return anonymous(string(text))
}

var (
	groupNames = regexp.MustCompile(`mcp-([a-z]+)[0-9]*-[a-z0-9]{8}`)
	numbers    = regexp.MustCompile(`[0-9]+`)
)

// anonymous leaves out ids, pids and inode numbers.
func anonymous(path string) string {
	return numbers.ReplaceAllString(groupNames.ReplaceAllString(path, "mcp-$1"), "N")
}
