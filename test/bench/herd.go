// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/test/bed"
)

// A herd is many groups, each as a server has it for whoever looks: attributes, a lock that
// is held, a process in the place of the supervisor and one in that of the server. As many real
// servers would take gigabytes.
type herd struct {
	slice  string
	dirs   []string
	locks  []int
	beasts []*exec.Cmd
}

// newHerd makes root's servers of the backend cgroup. This process is their launcher and client.
func newHerd(n int) (*herd, error) {
	h := &herd{slice: filepath.Join(cgroups, "mcp.slice", "0")}
	self, err := proc.ReadStat(os.Getpid())
	if err != nil {
		return nil, err
	}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &ns); err != nil {
		return nil, os.NewSyscallError("stat", err)
	}
	attributes := [][2]string{
		{"launcher", fmt.Sprint(self.PID, self.StartTime, ns.Ino)}, {"client", fmt.Sprint(self.PID, " ", self.StartTime, " bench")},
		{"unit", ""}, {"policy", "eof-grace=1.2s term-grace=1s"}, {"armed", "1"},
	}
	for i := range n {
		name := fmt.Sprintf("herd%04d", i)
		if err := h.add(name, append([][2]string{{"name", name}, {"start", time.Now().UTC().Format(time.RFC3339Nano)}}, attributes...)); err != nil {
			return nil, errors.Join(err, h.end())
		}
	}
	return h, nil
}

func (h *herd) add(name string, attributes [][2]string) error {
	id := strings.ReplaceAll(strings.Repeat(name[4:], 2), "1", "a") // ids have no 1, which looks like an l
	top := filepath.Join(h.slice, "mcp-"+name+"-"+id)
	h.dirs = append(h.dirs, top)
	payload := filepath.Join(top, "payload")
	for _, dir := range []string{filepath.Join(top, "supervisor"), payload} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := h.fill(dir); err != nil {
			return err
		}
	}
	fd, err := unix.Open(payload, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		h.locks = append(h.locks, fd)
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	for _, a := range attributes {
		if err == nil {
			err = unix.Fsetxattr(fd, "user.mcpscope."+a[0], []byte(a[1]), 0)
		}
	}
	return err
}

// fill starts a process in a group.
func (h *herd) fill(dir string) error {
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	cmd := exec.Command(crowdFile, "1", "sleep")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	h.beasts = append(h.beasts, cmd)
	return cmd.Start()
}

func (h *herd) end() error {
	var errs []error
	for _, fd := range h.locks {
		_ = unix.Close(fd) // a directory
	}
	for _, dir := range h.dirs {
		errs = append(errs, bed.Destroy(dir))
	}
	for _, cmd := range h.beasts {
		_ = cmd.Wait() // it was killed
	}
	return errors.Join(errs...)
}
