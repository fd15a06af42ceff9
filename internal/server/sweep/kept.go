// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// A sweep leaves kept processes alone until their time is over. Then it stops them, and it removes groups
// without a process. It does so for the calling user alone: the attribute is that user's to write.

// StopKept stops all of a group of kept processes, and removes it. stuck describes those that SIGKILL has not
// ended.
func StopKept(k *group.KeptGroup, grace time.Duration) (stuck string, err error) {
	stop := freeze.Stop{Target: k.Dir, Request: unix.SIGTERM, Grace: grace}
	left, err := stop.Run()
	if proc.IgnoreGone(err) != nil {
		return "", err
	}
	if len(left) > 0 {
		return group.DescribeStuck(left), nil
	}
	return "", k.RemoveKept()
}

// isKeptDue reports whether a sweep has to stop or to remove a group.
func isKeptDue(k *group.KeptGroup) bool {
	age, _ := group.Made(k.Dir)
	isLeft := !k.Managed && age >= policy.UnarmedAge && !group.Populated(k.Dir)
	return isLeft || k.IsOver(time.Now())
}

// sweepKept stops what was found. A later sweep stops what is left.
func sweepKept(due []*group.KeptGroup) {
	for _, k := range due {
		_, _ = StopKept(k, SweepGrace)
		k.Close()
	}
}

// visitKept is for one group in a walk through all of them.
func (s *sweeper) visitKept(_ string, parent *cgroup.Group, dir string) error {
	k, err := group.OpenKept(parent, dir)
	if err != nil {
		return proc.IgnoreGone(err)
	}
	defer k.Close()
	var st unix.Stat_t
	_ = unix.Fstat(k.Dir.FD(), &st) // it can't fail: the directory is open
	if int(st.Uid) != os.Getuid() || !isKeptDue(k) {
		return nil
	}
	swept := Swept{}
	if group.Populated(k.Dir) { // otherwise only a directory is removed
		swept = Swept{ID: names.IDOf(dir), Name: k.Name, Dir: dir}
	}
	if !s.filter.DryRun {
		swept.Stuck, err = StopKept(k, SweepGrace)
	}
	s.record(dir, swept, err)
	return nil
}
