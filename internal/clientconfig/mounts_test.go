// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

func TestMounts(t *testing.T) {
	all := proc.ParseMounts(`22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:50 / /home/me/far rw,nosuid shared:9 - nfs4 server:/export rw
31 22 0:51 / /home/me/over\040ssh rw - fuse.sshfs me@host: rw
32 30 8:2 / /home/me/far/disk rw - ext4 /dev/sda2 rw
not a mount
`)
	for path, hangs := range map[string]bool{
		"/":                      false,
		"/home/me/shop":          false,
		"/home/me/far":           true,
		"/home/me/far/shop":      true,
		"/home/me/farther":       false,
		"/home/me/over ssh/shop": true,
		"/home/me/far/disk/shop": false,
	} {
		if got := mountOf(all, path); mayHang(got) != hangs {
			t.Errorf("%s is on %+v", path, got)
		}
	}
}
