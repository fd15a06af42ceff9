// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Freezer1 tells where a process is in the freezer of cgroup v1: the root of that hierarchy, as a
// directory, and the directory of the process. ok is false where there is no such freezer, where no
// mount shows it whole, and for a process in its root, which can't be frozen.
func Freezer1(pid int) (root, dir string, ok bool) {
	b, err := readCgroup(pid)
	if err != nil {
		return "", "", false
	}
	where, ok := ParseCgroup1(b, "freezer")
	if !ok || where == "/" || strings.HasPrefix(where, "/..") {
		return "", "", false
	}
	mountinfo, err := read("/proc/self/mountinfo", noLimit)
	if err != nil {
		return "", "", false
	}
	for _, m := range ParseCgroup1Mounts(mountinfo, "freezer") {
		dir := path.Join(m.Target, where)
		if m.Root == "/" && !m.ReadOnly && unix.Access(dir+"/freezer.state", unix.F_OK) == nil {
			return m.Target, dir, true
		}
	}
	return "", "", false
}
