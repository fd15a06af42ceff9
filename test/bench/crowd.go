// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A crowd is a group of members that wait or compute.
type crowd struct {
	dir   string
	first *exec.Cmd
}

var crowds atomic.Int32

// newCrowd returns when all members are there. Each has a group of its own: who is born
// in one that was killed before dies at birth.
func newCrowd(n int, kind string) (*crowd, error) {
	own, err := bed.OwnGroup()
	if err != nil {
		return nil, err
	}
	c := &crowd{dir: filepath.Join(own, fmt.Sprintf("crowd.%d", crowds.Add(1)))}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil, err
	}
	group, err := os.Open(c.dir)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	c.first = exec.Command(crowdFile, strconv.Itoa(n), kind)
	c.first.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	c.first.Stderr = os.Stderr
	out, err := c.first.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.first.Start(); err != nil {
		return nil, err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	return c, err
}

// end also ends who was not killed by what was measured.
func (c *crowd) end() error {
	err := bed.Destroy(c.dir)
	_ = c.first.Wait() // it was killed
	return err
}
