// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/host"
)

// device is blank, and as large as a file system has to be.
const device = "/dev/nvme0n1"

// FIFREEZE and FITHAW of linux/fs.h.
const fiFreeze, fiThaw = 0xc0045877, 0xc0045878

// A disk is a file system that can be frozen: who writes to it sleeps then.
type disk struct {
	t   *testing.T
	dir string
	fd  int
}

// mountDisk gives every user a place to write to. When the test is over it is thawed and
// unmounted.
func mountDisk(t *testing.T) *disk {
	t.Helper()
	if out, err := exec.Command("/sbin/mke2fs", "-q", "-F", "-t", "ext4", device).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
	d := &disk{t: t, dir: host.Shared + "/disk"}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(device, d.dir, "ext4", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
		_ = os.Remove(d.dir) // the machine ends soon
	})
	if err := os.Chmod(d.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.fd, err = unix.Open(d.dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.IoctlSetInt(d.fd, fiThaw, 0) // EINVAL: the test has thawed it
		unix.Close(d.fd)
	})
	return d
}

func (d *disk) freeze() { d.set("freeze", fiFreeze) }
func (d *disk) thaw()   { d.set("thaw", fiThaw) }

func (d *disk) set(what string, request uint) {
	d.t.Helper()
	if err := unix.IoctlSetInt(d.fd, request, 0); err != nil {
		d.t.Fatalf("%s: %v", what, err)
	}
}
