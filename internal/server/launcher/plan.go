// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/admission"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// planning is the start of a server as a child of this process.
type planning struct {
	making
	arguments []string // of the process that performs the plan
	wait      admission.Wait
	notes     []string // on the start, whatever its place is
}

// Run plans the start of the server in the best place that there is, and executes this program again, whose
// raw code performs the plan: see guard.ExecutePlan. If that fails, main calls Run once more, with the place
// in Tried. Run returns only an error: mcpscope itself failed, and nothing was started.
func (s *Server) Run() error {
	m := &planning{making: *newMaking(s)}
	command := container.Labelled(s.Main.Argv, m.server.Config.Group.ID, s.Limits)
	for _, argument := range slices.Concat(os.Args[:s.Main.At], command) { // JournalStream needs them hidden
		m.arguments = append(m.arguments, strings.Clone(argument))
	}
	defer m.abandon()
	if err := m.begin(); err != nil {
		return err
	}
	return s.eachPlace(m.performIn)
}

func (m *planning) abandon() {
	if m.client != nil {
		m.client.Close()
	}
	if m.server.Page != nil {
		m.server.Page.Close()
	}
}

// begin fills in all that does not depend on the place.
func (m *planning) begin() error {
	s := m.wanted
	side, err := client.WatchParent(s.Policy)
	m.client = side
	if err != nil {
		return err
	}
	c := m.server.Config
	c.Side = side.ClientSide
	c.Foreign = guard.HasChildren()
	if err := m.openPage(); err != nil {
		return err
	}
	on := m.server.Page
	on.Started.Namespace = c.Facts.Launcher.Namespace
	on.Started.Side.Conveyed = side.Conveyed
	on.Started.Side.Socket = side.Socket
	on.Started.Side.Stdin = page.File(side.File)
	on.Started.Side.Stdout = page.File(side.Output)
	on.Order.Verbose = s.Output.Messages.Verbose
	on.Order.ContainersFirst = container.EndsFirst(c.Facts.Engine)
	plan := &on.Plan
	copy(plan.ID[:], c.Group.ID)
	plan.Vectors.Command = uint32(s.Main.At)
	plan.Vectors.Variables = uint32(len(s.Settings) + 1)
	plan.NoFile = s.Main.NoFile
	for _, l := range s.Limits.Files {
		if !plan.Limits.Add(l.File, l.Value) {
			return fmt.Errorf("set the limits: %w", unix.E2BIG)
		}
	}
	m.server.Note(container.Uncontained(s.Main.Argv))
	m.openStderr()
	m.notes = c.Output.Notes
	m.wait = admission.Wait{
		MinFree:       s.MinFree,
		OnClientDeath: s.Policy.OnClientDeath,
		Client:        side,
		Waits:         s.Output.Messages.Waits,
	}
	return nil
}

// openStderr opens a stream of the journal, if that is wanted. The journal stores the command line of each
// process that writes to it, and arguments may be secrets.
func (m *planning) openStderr() {
	if m.wanted.Output.Stderr != protocol.StderrJournal {
		return
	}
	HideArguments(m.wanted.Main.At + 1)
	c := m.server.Config
	fd, err := systemd.JournalStream(names.DirectoryName(c.Facts.Name, c.Group.ID), systemd.Info)
	if err != nil {
		m.server.Note("stderr is the client's: " + err.Error())
		return
	}
	c.Output.Stderr = protocol.StderrJournal
	plan := &m.server.Page.Plan
	plan.Stderr = int32(fd)
	plan.HidesArguments = true
}

// performIn starts the server in a place. missed has the errors of better ones.
func (m *planning) performIn(p backend.Place, missed []error) error {
	c := m.server.Config
	c.Output.Notes = slices.Clone(m.notes)
	if err := m.awaitMemory(p); err != nil {
		return err
	}
	c.Position = p.Path
	c.Facts.Client.Unit, _, _ = systemd.UnitOf(p.Path, os.Getuid()) // none, outside of any
	at, directories := backend.PlanIn(p, c)
	c.Group = at
	on := m.server.Page
	if err := on.SetDirectories(directories...); err != nil {
		return err
	}
	if err := m.openDirectories(p.Above); err != nil {
		return err
	}
	defer m.closeDirectories()
	plan := &on.Plan
	plan.Place.IsTree = p.IsTree()
	plan.Place.InScope = p.IsScope()
	plan.Place.EndsWhole = isInBoundedSession(p)
	if plan.Place.EndsWhole { // the server inherits the score: it is killed before its client
		_ = group.RaiseOOMScore(os.Getpid(), -1, os.Getppid()) // the kernel may kill the client first
	}
	if err := m.handDown(p); err != nil {
		return err
	}
	m.notePlace(missed)
	on.Order.Keeps = len(c.Keep.Patterns) > 0 // the place before may have been a tree
	m.noteKeep()
	m.encodeAttributes()
	m.tellWeaker(missed)
	on.Order.Managed = at.Managed
	on.Order.PlainEnd = m.plainEnd()
	c.Missed = encodeTried(missed)
	if err := on.SetConfig(protocol.Encode(c)); err != nil {
		return err
	}
	s := m.wanted
	variables := slices.Concat(s.Settings, s.Env, []string{"MCPSCOPE_ID=" + at.ID})
	return guard.ExecutePlan(on, s.Main.Path, m.arguments, variables, s.Main.Signals)
}

// awaitMemory waits for free memory before there is a group or a process, so that a signal in the wait leaves
// nothing.
func (m *planning) awaitMemory(p backend.Place) error {
	if m.wait.MinFree == 0 {
		return nil
	}
	above := p.AboveServer()
	defer above.Close() // a directory, or nil
	err := m.wait.UntilFree(p.Root, above)
	if waited := m.wait.Waited(); err == nil && waited > 0 {
		m.server.Note("waited for free memory: " + waited.Round(policy.AdmitEvery).String())
	}
	return err
}

// handDown enables the controllers of the limits in a directory of our own. In a scope MakeScope does. A
// directory that a manager takes over cannot hand controllers down yet: a process is moved to it.
func (m *planning) handDown(p backend.Place) error {
	if p.Above == nil || m.server.Config.Group.Managed {
		return nil
	}
	owned := group.OwnedFrom(p.Above, p.Backend)
	if p.Session != nil {
		owned = 1 + group.OwnedAboveDirectory(p.Above, p.Backend)
	}
	for _, l := range m.wanted.Limits.Files {
		if err := cgroup.HandDown(p.Above, l.File, owned); err != nil {
			return group.LimitError(l, err)
		}
	}
	if m.server.Page.Plan.Place.EndsWhole {
		if err := cgroup.HandDown(p.Above, cgroup.OOMGroup, owned); err != nil {
			m.server.Note("out of memory the kernel kills one process of it: " + text.JoinLines(err))
		}
	}
	_ = cgroup.HandDown(p.Above, group.MemoryFile, owned) // it is not counted
	return nil
}

// isInBoundedSession reports whether the place is in a session with a limit of memory.
func isInBoundedSession(p backend.Place) bool {
	if p.Session == nil {
		return false
	}
	session, err := p.Root.Child(strings.TrimPrefix(p.Session.Path, "/"))
	if err != nil {
		return false // the group can't be made there either
	}
	defer session.Close()
	return group.IsMemoryBounded(session)
}

// tellWeaker reports a better backend that this host has, and that does not work any more. That a host has
// none is a note.
func (m *planning) tellWeaker(missed []error) {
	var broken []error
	for _, err := range missed {
		if of := new(placeError); errors.As(err, &of) && of.isBroken() {
			broken = append(broken, err)
		}
	}
	isTree := m.server.Config.Group.Backend == names.Tree
	if isTree && len(broken) > 0 && m.wanted.Output.Messages.Weaker != nil {
		m.wanted.Output.Messages.Weaker(errors.Join(broken...))
	}
}

// plainEnd is who ends a server of which nothing is left.
func (m *planning) plainEnd() page.PlainEnd {
	c := m.server.Config
	switch {
	case c.Facts.Engine != "", c.Output.Report >= 0, c.Output.Verbose:
		return page.HelperEndsFirst
	case systemd.JournalExists(), c.Group.Managed:
		return page.HelperEndsLater
	}
	return page.LauncherEnds
}

// encodeAttributes writes those of the group to the plan. It leaves out the end of a name that is longer than
// any that people give.
func (m *planning) encodeAttributes() {
	plan := &m.server.Page.Plan
	facts := m.server.Config.Facts
	encoded := protocol.Encode(&facts)
	if len(encoded) > len(plan.Facts.Text) {
		const clipped = 256
		facts.Name = strings.ToValidUTF8(facts.Name[:min(len(facts.Name), clipped)], "")
		encoded = protocol.Encode(&facts)
	}
	plan.Facts.Size = uint32(copy(plan.Facts.Text[:], encoded))
	plan.Notes.Size = uint32(copy(plan.Notes.Text[:], group.NotesText(m.server.Config.Output.Notes)))
}
