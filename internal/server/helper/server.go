// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/internal/text"
)

// Server is a server as its launcher and its helpers have it.
type Server struct {
	Config *protocol.Config
	Page   *page.Page
	Guard  *page.Guard         // nil before it is forked
	Group  *group.ControlGroup // nil before it is made
	Env    []string            // the server's, for its container engine
}

// Outcome is how a server ended.
type Outcome struct {
	// Status is the main process's, from wait(2); Known is false where it could not be waited for.
	Status unix.WaitStatus
	Known  bool
	Notes  string   // lines for people
	Stuck  []string // members that could not be killed
	// Reported: the report was written.
	Reported bool
}

// Outcome reads from the page how the server ended. The error is the reason why its command did not run.
func (s *Server) Outcome() (Outcome, error) {
	p := s.Page
	isNewline := func(r rune) bool { return r == '\n' }
	o := Outcome{
		Status:   unix.WaitStatus(p.Status()),
		Known:    p.Exited(),
		Notes:    textIn(p.ByHelper.EndNotes[:]),
		Stuck:    strings.FieldsFunc(textIn(p.ByHelper.Left[:]), isNewline),
		Reported: p.ByLauncher.FailedStep == page.StepNone,
	}
	errno := unix.Errno(p.ByLauncher.Errno)
	switch step := p.ByLauncher.FailedStep; step {
	case page.StepNone:
		return o, nil
	case page.StepExec:
		return o, &protocol.CommandError{Command: s.Config.Path, Errno: errno}
	default:
		return o, fmt.Errorf("start the server: %v: %w", step, errno)
	}
}

// textIn reads lines for people from the page: see setText.
func textIn(area []byte) string {
	lines, _, _ := bytes.Cut(area, []byte{0})
	return string(lines)
}

// setText writes lines for people to the page. It leaves out those for which there is no room.
func setText(area []byte, prefix string, lines []string) {
	clear(area)
	n := 0
	for _, line := range lines {
		line = prefix + text.Printable(strings.ReplaceAll(line, "\n", ", ")) + "\n"
		if n+len(line) >= len(area) { // a 0 ends the text
			return
		}
		n += copy(area[n:], line)
	}
}

// EndInLauncher reports the end of a server of which nothing is left, and removes the group, in its launcher.
func (s *Server) EndInLauncher() {
	e := newEnding(s)
	if !s.Page.ByHelper.Start.Begun {
		if e.mustReport() {
			s.logStart()
		}
		sweep.BeginSweep(s.Group.Beside()).Await()
	}
	e.finish(func() {})
}

// closeReport closes the file of the report: its reader waits for the end of a pipe, and this process may
// sweep for some time. A watcher has the file for all its servers.
func (s *Server) closeReport() {
	if s.Config.StartedByClient || s.Config.Output.Report < 0 {
		return
	}
	_ = unix.Close(s.Config.Output.Report) // the report was written, or could not be
	s.Config.Output.Report = -1
}

func (s *Server) logStart() {
	if systemd.JournalExists() {
		report.LogStart(s.Config)
	}
}

// isDescribed reports whether a report or a note describes the end.
func (s *Server) isDescribed() bool {
	return report.Wanted(s.Config.Output.Report) || s.Config.Output.Verbose
}

// descendants returns the processes that descend from the launcher or carry the tag, without the guard. A
// dead launcher does not count, also if a tracer keeps it from being reaped.
func (s *Server) descendants(tag freeze.Tag) *freeze.Tree {
	root := freeze.Root{PID: s.Config.Facts.Launcher.PID, PIDFD: int(s.Page.FD.Launcher)}
	below := group.Below(root, tag, int(s.Page.ByGuard.GuardPID))
	if s.Page.Order.Foreign {
		group.SpareForeign(below, group.TagOf(s.Config.Group.ID), int(s.Page.ByLauncher.MainPID))
	}
	if !s.launcherLives() {
		below.Root = nil
	}
	return below
}

func (s *Server) launcherLives() bool {
	return s.Page.ByGuard.Happened[page.LauncherDied] == 0 && !linux.Ended(int(s.Page.FD.Launcher))
}

// isStopping reports whether the end of the server has begun.
func (s *Server) isStopping() bool { return s.Page.ByGuard.Stop.State.Phase != decide.Running }

// Note adds a remark for people.
func (s *Server) Note(text string) {
	if c := s.Config; text != "" && !slices.Contains(c.Output.Notes, text) {
		c.Output.Notes = append(c.Output.Notes, text)
	}
}

// noteGuards adds a remark on guards that were killed.
func (s *Server) noteGuards() {
	if n := s.Page.ByLauncher.Guards; n > 0 {
		s.Note(fmt.Sprintf("guards that were killed, and have been replaced: %d", n))
	}
}
