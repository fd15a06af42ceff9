// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// mountOf returns the mount that a clean, absolute path is on: of several at the same point the last one.
func mountOf(all []proc.Mount, path string) (found proc.Mount) {
	for _, m := range all {
		isAbove := m.Point == "/" || path == m.Point || strings.HasPrefix(path, m.Point+"/")
		if isAbove && len(m.Point) >= len(found.Point) {
			found = m
		}
	}
	return found
}

// mayHang reports whether reading a file of the mount can block for ever: its server may not answer.
func mayHang(m proc.Mount) bool {
	remote := []string{"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "autofs", "fuse", "davfs"}
	kind, _, _ := strings.Cut(filepath.Base(m.Kind), ".") // fuse.sshfs
	return slices.Contains(remote, kind)
}
