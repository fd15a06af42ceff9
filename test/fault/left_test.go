// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"os"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
)

// sweep ends what has no guard any more.
func (r *run) sweep() {
	r.t.Helper()
	cmd := r.site.Command(mcpscope, "sweep")
	out, errs := memoryFile(r.t), memoryFile(r.t)
	cmd.Stdout, cmd.Stderr = out, errs
	r.site.Start(r.lane.client, cmd)
	p, err := escape.OpenProcess(cmd.Process.Pid)
	if err != nil {
		r.t.Fatal(err)
	}
	defer p.Close()
	if !p.Ended(escape.Patience) {
		r.bad("the sweep does not end: %s", escape.Describe(p.PID))
		_ = cmd.Process.Kill() // it may have ended
	}
	if err := cmd.Wait(); err != nil || escape.Contents(errs) != "" {
		r.bad("sweep: %v: %s", err, escape.Contents(errs))
	}
	r.swept = r.swept || strings.Contains(escape.Contents(out), r.name)
}

// nobodyLeft: the filter has no task any more, and none of those is a zombie.
func (r *run) nobodyLeft() {
	limit := time.NewTimer(escape.Patience)
	defer limit.Stop()
	select {
	case <-r.watcher.over:
	case <-limit.C:
		for _, p := range r.watcher.processes() {
			if p.alive() {
				r.bad("left: %s: %s", p.role, escape.Describe(p.pid))
			}
		}
		return
	}
	for _, p := range r.watcher.processes() {
		if !p.reaped() {
			r.bad("a zombie: %s %d", p.role, p.pid)
		}
	}
	if left := r.members.Running(); len(left) > 0 {
		r.bad("left: %q", left)
	}
}

// noGroupLeft: after a sweep, and then only what is so young that it may be of a start. When
// it is older the next sweep removes that, too.
func (r *run) noGroupLeft() {
	if r.groupsGone(removal) {
		return
	}
	r.sweep()
	if r.groupsGone(removal) {
		return
	}
	for _, dir := range r.lane.left(r.name) {
		if armed(dir) {
			r.bad("a group is left after a sweep: %s", escape.Tree(dir))
		}
		_ = os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Minute)) // it may just be removed
	}
	r.sweep()
	if !r.groupsGone(escape.Patience) {
		r.bad("an old group is left after a sweep: %q", r.lane.left(r.name))
	}
}

// removal is what systemd takes for it when it does.
const removal = time.Second

// groupsGone waits for whoever removes them, if somebody else does.
func (r *run) groupsGone(limit time.Duration) bool {
	for _, dir := range r.lane.left(r.name) {
		if !r.lane.backend.managed || escape.AwaitRemoval(dir, limit) != nil {
			return false
		}
	}
	return true
}
