// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// Mount is a mount that a process sees.
type Mount struct {
	Point   string
	Options []string // of the mount, not of its file system
	Kind    string   // such as ext4
}

// IsReadOnly reports whether nothing can be written through this mount.
func (m Mount) IsReadOnly() bool { return slices.Contains(m.Options, "ro") }

// Mounts returns the mounts that a process sees, 0 for the calling one, in the order of the kernel.
func Mounts(pid int) ([]Mount, error) {
	who := "self"
	if pid != 0 {
		who = strconv.Itoa(pid)
	}
	text, err := os.ReadFile("/proc/" + who + "/mountinfo")
	return ParseMounts(string(text)), err
}

// ParseMounts parses the text of /proc/PID/mountinfo (proc(5)). It leaves out malformed lines.
func ParseMounts(mountinfo string) (all []Mount) {
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		place := strings.Fields(before)
		of := strings.Fields(after)
		if !found || len(place) < 6 || len(of) == 0 {
			continue
		}
		options := strings.Split(place[5], ",")
		all = append(all, Mount{Point: unescaped(place[4]), Options: options, Kind: of[0]})
	}
	return all
}

// unescaped replaces what the kernel writes for a blank, a tab, a newline and a backslash: \040 and so on.
func unescaped(text string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		code, err := strconv.ParseUint(after[:min(len(after), 3)], 8, 8)
		if err != nil {
			b.WriteByte('\\')
			text = after
			continue
		}
		b.WriteByte(byte(code))
		text = after[3:]
	}
}
