// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/internal/text"
)

// killer kills all of a server, and keeps what it could not kill.
type killer struct {
	server *Server
	record *record
	stuck  []freeze.Stuck
	undone string       // containers that may be left
	swept  *sweep.Begun // nil, unless nested servers may have been left
}

func newKiller(s *Server) *killer { return &killer{server: s, record: &record{server: s}} }

// killAll kills members, and those that are re-parented to the launcher by that. note begins the note of an
// error.
func (k *killer) killAll(members freeze.Target, note string) {
	frozen := func() {
		k.record.measureEarly()
		k.takeOutLauncher(members)
		k.record.inspect(members)
	}
	left, err := freeze.Stop{Target: members, Frozen: frozen}.Run()
	k.stuck = freeze.AddStuck(k.stuck, left)
	if err != nil {
		k.server.Note(note + text.JoinLines(err))
	}
}

// takeOutLauncher moves a launcher that a member has pulled into the group out of it: it has to return after
// the last member is dead, with the server's status. No other process can have its pid while it lives.
func (k *killer) takeOutLauncher(members freeze.Target) {
	s := k.server
	launcher := s.Config.Launcher.PID
	pids, _ := members.Members() // none is taken out without a list
	if !slices.Contains(pids, launcher) || !s.launcherLives() {
		return
	}
	if err := s.Group.TakeOut(launcher); err != nil {
		s.Note("the launcher is killed with the server, which has moved it: " + text.JoinLines(err))
	}
}

// Beginnings of notes: see killAll.
const (
	noteLeft      = "members may be left: "
	noteElsewhere = "members in other cgroups could not be looked for: "
)

// killLeftOvers kills the members that left the group. They descend from the launcher, a subreaper, while
// that lives. Otherwise they carry the tag; to search for it reads all processes of the host, 1 ms for 100
// of them.
func (k *killer) killLeftOvers() {
	s := k.server
	if s.Config.StartedByClient { // no member descends from the watcher
		k.killAll(s.Group.Tagged(), noteElsewhere)
		return
	}
	if s.Page.ByLauncher.EndLeft == page.LeftReturned { // it has seen that nothing was left
		return
	}
	below := s.descendants(noTag)
	nothingElsewhere := below.Root != nil && (s.Page.ByLauncher.Childless || below.RootAlone())
	if nothingElsewhere {
		return
	}
	if below.Root != nil {
		k.killAll(below, noteElsewhere)
	}
	k.swept = sweep.BeginSweep(s.Group.Beside()) // guards of nested servers may have been among them
	k.swept.AwaitDeaths()
	k.killAll(s.Group.Tagged(), noteElsewhere)
}

// stopContainers stops the containers that an engine runs for the server. A server that its client has
// started has no label to find them by.
func (k *killer) stopContainers(grace time.Duration) {
	s := k.server
	c := s.Config
	if c.Engine == "" || c.StartedByClient {
		return
	}
	err := container.End(c.Group.ID, c.Argv, s.Env, grace)
	if err == nil {
		k.undone = ""
		return
	}
	status := unix.WaitStatus(s.Page.Status()).ExitStatus()
	// statuses of an engine that could not start a container, and of a shell that could not start the engine
	hasNoContainer := s.Page.Exited() && status >= 125 && status <= 127
	if hasNoContainer {
		s.Note(err.Error())
		return
	}
	k.undone = err.Error()
}

// publishEnd writes to the page the notes and the left members, which the launcher prints.
func (k *killer) publishEnd() {
	s := k.server
	notes := slices.Clone(s.Config.Notes)
	if k.record.sentence != "" {
		notes = append(notes, k.record.sentence)
	}
	setText(s.Page.ByBrain.EndNotes[:], "mcpscope: note: ", notes)
	setText(s.Page.ByBrain.Left[:], "", k.leftForPeople())
}

// leftForPeople describes members and containers that may be left.
func (k *killer) leftForPeople() []string {
	var left []string
	for _, member := range k.stuck[:min(len(k.stuck), report.NamedMost)] {
		left = append(left, member.Text)
	}
	if k.undone != "" {
		left = append(left, k.undone)
	}
	return left
}

// awaitStuck waits for members that SIGKILL has not ended. The launcher does not wait for them. While their
// state cannot be read they are there.
func (k *killer) awaitStuck() {
	if len(k.stuck) == 0 {
		return
	}
	s := k.server
	s.Page.ByBrain.BrainReactsBy = 0
	s.Page.ByBrain.Stuck = true
	s.Guard.Look()
	for {
		empty, err := freeze.AwaitEmpty(s.Group.Members(), time.Time{})
		if empty || proc.IsGone(err) {
			return
		}
		time.Sleep(policy.IdleWindow)
	}
}
