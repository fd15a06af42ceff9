// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mount is a line of /proc/PID/mountinfo (proc(5)).
type mount struct{ point, kind string }

func mountsIn(mountinfo string) (all []mount) {
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		place := strings.Fields(before)
		of := strings.Fields(after)
		if !found || len(place) < 5 || len(of) == 0 {
			continue
		}
		all = append(all, mount{point: unescaped(place[4]), kind: of[0]})
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

// mountOf returns the mount that a clean, absolute path is on: of several at the same point the last one.
func mountOf(all []mount, path string) (found mount) {
	for _, m := range all {
		isAbove := m.point == "/" || path == m.point || strings.HasPrefix(path, m.point+"/")
		if isAbove && len(m.point) >= len(found.point) {
			found = m
		}
	}
	return found
}

// mayHang reports whether reading a file of the mount can block for ever: its server may not answer.
func (m mount) mayHang() bool {
	remote := []string{"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "autofs", "fuse", "davfs"}
	kind, _, _ := strings.Cut(filepath.Base(m.kind), ".") // fuse.sshfs
	return slices.Contains(remote, kind)
}
