// SPDX-License-Identifier: Apache-2.0

package proc

import "strings"

// Mount is a mount of the cgroup2 hierarchy.
type Mount struct {
	Root     string // the mounted directory; "/" is the root of the mounter's cgroup namespace
	Target   string
	ReadOnly bool // the mount, or the whole file system
}

// ParseCgroup2Mounts lists the cgroup2 mounts in the contents of /proc/PID/mountinfo, in the kernel's order:
// of two mounts with the same Target, the later hides the earlier. It skips malformed lines.
func ParseCgroup2Mounts(mountinfo []byte) []Mount {
	var all []Mount
	for line := range strings.Lines(string(mountinfo)) {
		// six fields and any number of optional ones, then "-" and three more
		mount, super, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		m, s := strings.Split(mount, " "), strings.Split(super, " ") // not Fields: the source may be empty
		if len(m) > 5 && len(s) > 2 && s[0] == "cgroup2" {
			all = append(all, Mount{
				escapes.Replace(m[3]), escapes.Replace(m[4]), readOnly(m[5]) || readOnly(s[2]),
			})
		}
	}
	return all
}

// readOnly: the kernel writes ro or rw before all other options.
func readOnly(options string) bool { return options == "ro" || strings.HasPrefix(options, "ro,") }

// escapes are those of the kernel in a path of mountinfo.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
