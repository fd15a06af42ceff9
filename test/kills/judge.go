// SPDX-License-Identifier: Apache-2.0

package kills

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// judge fails the test for everything that is not as promised.
func (k *kill) judge() {
	k.t.Helper()
	if !k.launcherKilled {
		k.judgeLauncher()
	}
	if !k.clientKilled {
		k.judgeStatus()
	}
	k.judgeRemains()
}

// judgeLauncher: a launcher that was not killed returns by itself, and not before the last member is dead.
func (k *kill) judgeLauncher() {
	k.t.Helper()
	if !k.client.Server.Ended(escape.Patience) {
		k.t.Errorf("the launcher does not return: %v", k.look())
		return
	}
	for _, p := range k.ofKind(member) {
		if p.marked {
			k.t.Errorf("the launcher returned before a member was dead: %s", p)
		}
	}
}

// judgeStatus: the client gets a status, and the right one.
func (k *kill) judgeStatus() {
	k.t.Helper()
	got := k.client.Status(escape.Patience)
	if want := k.statuses(); !slices.Contains(want, got) {
		k.t.Errorf("ended with %q, want one of %q", got, want)
	}
}

// statuses predicts the status of the launcher. One whose guard died before the server was born may give up,
// but not after the server has run.
func (k *kill) statuses() []string {
	var want []string
	switch {
	case k.shape.brief != "":
		want = append(want, k.shape.brief)
	case k.ended == "EOF" && k.shape.atEOF != "":
		want = append(want, k.shape.atEOF)
	case k.shape.deaf:
		want = append(want, "signal 9")
	case k.ended != "":
		// Without a helper a guard may have to kill at once.
		want = append(want, "signal 15", "signal 9")
	}
	if k.ended == "stop" && k.cell.moment == starting {
		// The server may not have done anything yet, nor do so within its grace: other load may delay it.
		want = append(want, "signal 15", "signal 9")
	}
	if k.launcherKilled {
		want = append(want, "signal 9")
	}
	ran := slices.Contains(k.client.Lines(), "out up")
	if k.guardKilled && (!ran || !guardIsRenewed) {
		want = append(want, "exit 125")
	}
	return want
}

// judgeRemains: at last no process but the client is left, and no directory. If launcher and guard were
// both killed, and no process is left that could act, that may take one sweep.
func (k *kill) judgeRemains() {
	k.t.Helper()
	mayNeedSweep := k.launcherKilled && k.guardKilled || k.table.SweepCleans
	pace.Eventually(escape.Patience, func() bool { return k.clean() || mayNeedSweep && k.abandoned() })
	switch {
	case k.clean() || !mayNeedSweep:
	case k.table.SweepCleans:
		escape.SweepUntil(k.clean, k.sweep)
	default:
		k.sweep()
		if !pace.Eventually(escape.Patience, k.clean) { // a process on its way out may have held the lock until then
			k.sweep()
		}
	}
	if pace.Eventually(escape.Patience, k.clean) { // a guard that was not called so yet may exit only now
		return
	}
	if k.groups == "" && mayNeedSweep && k.abandoned() { // a sweep does not find a tree without launcher and guard
		k.lost = true
		for _, p := range k.look() {
			k.killProcess(p)
		}
		pace.Eventually(escape.Patience, k.clean)
		return
	}
	left := k.look()
	for _, p := range left[:min(len(left), 10)] {
		k.t.Errorf("one of %d processes left: %s", len(left), p)
	}
	for _, dir := range k.directories() {
		k.t.Errorf("left: %s: %s", strings.TrimPrefix(dir, k.site.Dir), escape.Tree(dir))
	}
	if !k.t.Failed() {
		k.t.Error("it was clean only after the last look")
	}
}

// clean lists the processes first, because a process may still make a directory.
func (k *kill) clean() bool { return len(k.look()) == 0 && len(k.directories()) == 0 }

// sweep ends what has neither launcher nor guard. A directory that is not armed yet may belong to a launcher
// that is just starting, and is spared for some seconds: here it is made older.
func (k *kill) sweep() {
	k.t.Helper()
	k.swept = true
	hourAgo := time.Now().Add(-time.Hour)
	for _, dir := range k.directories() {
		if err := os.Chtimes(dir, hourAgo, hourAgo); err != nil && !os.IsNotExist(err) {
			k.t.Error(err)
		}
	}
	o, err := escape.Finish(k.site.Dir, k.site.Command(k.table.Program, "sweep", "--quiet"))
	k.note(fmt.Sprintf("sweep %q", o.Stdout))
	if err != nil || o.Status != 0 || o.Stderr != "" {
		k.t.Errorf("sweep: %s", fmt.Sprint(o, err))
	}
}
