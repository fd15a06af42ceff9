// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// verdict is what came of a run.
type verdict string

const (
	usual      verdict = "as usual"     // it answered, and ended as it ends without a fault
	refused    verdict = "refused"      // it never ran, and a line says why
	cutShort   verdict = "cut short"    // it ran, was ended, and a line says why
	ended      verdict = "guard killed" // the launcher was killed, and nothing is left
	swept      verdict = "swept"        // as before, with the help of a sweep
	notReached verdict = "not reached"  // this time the point was not on the way
	broken     verdict = "broken"       // a promise was
)

var verdicts = []verdict{usual, refused, cutShort, ended, swept, notReached, broken}

// contained fails for a server that runs where it must not.
func (r *run) contained() {
	if err := r.members.UntilReady(escape.Patience); err != nil {
		r.bad("the server answers, and its members have not reported: %v", err)
		return
	}
	main, id := r.members.Main()
	if r.lane.backend.tree {
		parent, err := escape.ParentOf(main.PID)
		s := r.watcher.guard(supervisor)
		if err == nil && !main.Ended(0) && (s == nil || s.pid != parent && s.alive()) {
			r.bad("the server is a child of %d, not of its supervisor", parent)
		}
		return
	}
	where, err := bed.ProcessPath(main.PID)
	if err == nil && !main.Ended(0) && !strings.HasSuffix(strings.TrimSuffix(filepath.Dir(where), ".scope"), "-"+id) {
		r.bad("the server %s is in %s", id, where)
	}
}

// settledWithin is for a manager to take a scope over, if it does.
const settledWithin = 2 * delayed

// settled returns when the manager has the scope, or has had the time for it.
func (r *run) settled() {
	for _, dir := range r.lane.left(r.name) {
		if err := escape.AwaitScope(dir, settledWithin); err != nil && r.shot == nil {
			r.bad("%v", err)
		}
	}
}

// judge waits for what must happen after a run, and says what came of it.
func (r *run) judge() verdict {
	w := r.watcher
	if r.shot != nil && r.shot.unguarded() {
		if p := w.guard(supervisor); p != nil {
			_ = p.ended() // killed a moment after the launcher: a sweep in between would find it alive
		}
		r.sweep()
	}
	r.nobodyLeft()
	r.noGroupLeft()
	for _, one := range r.lane.bystanders {
		if !one.Lives() {
			r.bad("a bystander does not answer: %s", one.Name)
		}
	}
	w.mu.Lock()
	r.odd = append(r.odd, w.odd...)
	fired := w.fired
	w.mu.Unlock()
	v := r.told(fired)
	if r.shot != nil && !fired {
		if v != usual {
			r.bad("%s, and the point was not reached", v)
		}
		v = notReached
	}
	if len(r.odd) > 0 {
		return broken
	}
	return v
}

// told reads what the client sees: a status, and a line.
func (r *run) told(fired bool) verdict {
	status, said := r.status(), escape.Contents(r.stderr)
	if fired && r.shot.kills(launcher) {
		r.lines(said)
		if r.swept {
			return swept
		}
		return ended
	}
	own := status.Exited() && status.ExitStatus() >= 125 && status.ExitStatus() <= 127
	switch {
	case r.answered && status.Signaled() && status.Signal() == unix.SIGKILL && said == "":
		return usual
	case own && r.lines(said) == 1 && r.answered:
		return cutShort
	case own && r.lines(said) == 1:
		return refused
	}
	r.bad("answered %v, status %#x, stderr: %s", r.answered, status, said)
	return broken
}

// lines counts what mcpscope has said but for hints. Nobody else may say anything.
func (r *run) lines(said string) int {
	n := 0
	for line := range strings.Lines(said) {
		switch {
		case strings.HasPrefix(line, "mcpscope: hint: "):
		case strings.HasPrefix(line, "mcpscope: cannot "):
			n++
		default:
			r.bad("stderr: %s", line)
		}
	}
	return n
}

// explain is for a run that broke a promise.
func (r *run) explain() string {
	return fmt.Sprintf("%s\n\tstatus %#x, answered %v, stderr: %s", strings.Join(r.odd, "\n\t"), r.status(), r.answered, escape.Contents(r.stderr))
}
