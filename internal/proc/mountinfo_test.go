// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"slices"
	"strings"
	"testing"
)

func TestParseCgroup2Mounts(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Mount
	}{
		{"unified", "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
			[]Mount{{"/", "/sys/fs/cgroup", false}}},
		{"hybrid", "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
			[]Mount{{"/", "/sys/fs/cgroup/unified", false}}},
		{"read-only mount", "42 27 0:38 / /a ro,relatime - cgroup2 none rw\n", []Mount{{"/", "/a", true}}},
		{"read-only file system", "42 27 0:38 / /a rw,relatime - cgroup2 none ro,nsdelegate\n", []Mount{{"/", "/a", true}}},
		{"a directory of the hierarchy", "50 41 0:38 /system.slice/x.service /run/cg rw - cgroup2 cgroup2 rw\n",
			[]Mount{{"/system.slice/x.service", "/run/cg", false}}},

		{"escapes", `42 27 0:38 /r\011\012x /tmp/m\040t\134x rw - cgroup2 none rw` + "\n",
			[]Mount{{"/r\t\nx", `/tmp/m t\x`, false}}},
		{"an escaped backslash before digits", `42 27 0:38 / /a\134040 rw - cgroup2 none rw`, []Mount{{"/", `/a\040`, false}}},

		{"empty source", "42 27 0:38 / /a rw - cgroup2  rw\n", []Mount{{"/", "/a", false}}},
		{"one over the other", "1 0 0:3 / /a rw - cgroup2 c rw\n2 1 0:3 /x /a ro - cgroup2 c rw\n",
			[]Mount{{"/", "/a", false}, {"/x", "/a", true}}},

		{"another file system", "42 27 0:38 / /a rw - tmpfs cgroup2 rw\n", nil},
		{"no dash", "42 27 0:38 / /a rw shared:1 cgroup2 none rw\n", nil},
		{"cut", "42 27 0:38 / /a rw - cgroup2 none", nil},
		{"good lines among bad", "x\n\n42 27 0:38 / /a rw - cgroup2 none rw\n - - - - - - - -\n", []Mount{{"/", "/a", false}}},
	}
	for _, tt := range tests {
		if got := ParseCgroup2Mounts([]byte(tt.text)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got  %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

func FuzzParseCgroup2Mounts(f *testing.F) {
	f.Add([]byte("42 27 0:38 / /tmp/m\\040t\\134x ro,relatime shared:1 - cgroup2 none rw\n"))
	f.Add([]byte("1 2 3 \\777 \\ - - cgroup2  "))
	f.Fuzz(func(t *testing.T, b []byte) {
		mounts := ParseCgroup2Mounts(b)
		if n := strings.Count(string(b), " cgroup2 "); len(mounts) > n {
			t.Fatalf("%d mounts in a file that names %d", len(mounts), n)
		}
		for _, m := range mounts {
			if len(m.Root)+len(m.Target) > len(b) {
				t.Fatalf("%+v is longer than the file", m)
			}
		}
	})
}
