// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

func (g *launchedTree) Tagged() *freeze.Tree { return group.TaggedTree(g.id) }

func (g *ownedTree) Tagged() *freeze.Tree { return group.TaggedTree(g.id) }

// Where no cgroup can be had a group is what descends from its supervisor, a child
// subreaper. The supervisor in turn has a guard as its parent, a subreaper too: should a
// member kill the supervisor, its members come home to the guard, which ends them.

// treePlace gives groups that need nothing of the host but pidfds and /proc.
type treePlace struct{}

// newTreePlace makes sure that members can be found.
func newTreePlace() (Place, error) {
	if _, err := proc.Children(os.Getpid()); err != nil {
		return nil, fmt.Errorf("list our children: %w", err)
	}
	return treePlace{}, nil
}

func (treePlace) Backend() protocol.Backend { return protocol.Tree }

func (treePlace) NeedsProcess() bool { return false }

func (treePlace) Group(facts *protocol.Config, _ int) (group.Launched, error) {
	if len(facts.Limits.Files) > 0 && !facts.Limits.BestEffort {
		return nil, group.ErrNoGroup
	}
	self, err := group.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	id, err := protocol.NewID()
	if err != nil {
		return nil, err
	}
	return &launchedTree{id: id, self: self}, nil
}

// launchedTree is seen from beside: until the supervisor has said who it and its guard are, the guard
// is all that is known.
type launchedTree struct {
	id   string
	self group.Identity
	tree freeze.Tree // its roots: the supervisor, the guard
}

func (g *launchedTree) Ident() string { return g.id }

func (g *launchedTree) Members() group.Payload { return &g.tree }

func (g *launchedTree) SupervisorGroup() spawn.Group { return nil }

func (g *launchedTree) PayloadGroup() spawn.Group { return nil }

func (g *launchedTree) Standby() *spawn.Standby { return nil }

func (g *launchedTree) Killable() bool { return false }

func (g *launchedTree) Figures() protocol.Figures { return nil }

func (g *ownedTree) Figures() protocol.Figures { return nil }

func (g *launchedTree) Beside() (parent *cgroup.Group, own string) { return nil, "" }

func (g *launchedTree) Placed() (protocol.Placed, []int) {
	return protocol.Placed{ID: g.id, Launcher: g.self.String()}, nil
}

func (g *launchedTree) Remove() error { return nil }

func (g *launchedTree) Begun(guard int) {
	if r, err := freeze.NewRoot(guard); err == nil && group.Supervises(r.PID) { // otherwise it has ended, and its number may have been another's
		g.tree.Roots = []freeze.Root{r}
	}
}

func (g *launchedTree) Started(supervisor, guard int) error {
	var errs []error
	g.tree.Roots = nil
	for _, fd := range []int{supervisor, guard} {
		r, err := freeze.NewRoot(fd)
		if !errors.Is(err, freeze.ErrInit) { // otherwise the pidfd is known anyway
			g.tree.Roots = append(g.tree.Roots, r)
		}
		errs = append(errs, err)
	}
	g.tree.Spare = supervisors()
	return errors.Join(errs...)
}

func (g *launchedTree) Adopt() {}

func (g *launchedTree) SupervisorStopped() bool {
	if len(g.tree.Roots) < 2 {
		return g.heldAtBirth()
	}
	st, err := proc.ReadStat(g.tree.Roots[0].PID)
	return err != nil || st.Stopped()
}

// heldAtBirth tells whether a guard has a child that can't say that the server runs: the supervisor.
func (g *launchedTree) heldAtBirth() bool {
	if len(g.tree.Roots) == 0 {
		return false
	}
	children, _ := proc.Children(g.tree.Roots[0].PID) // none, if they can't be listed
	return slices.ContainsFunc(children, func(pid int) bool {
		st, err := proc.ReadStat(pid)
		return err == nil && st.Stopped()
	})
}

func (g *launchedTree) WakeSupervisor() { g.signal(unix.SIGCONT) }

func (g *launchedTree) KillSupervisor() { g.signal(unix.SIGKILL) }

func (g *launchedTree) signal(sig unix.Signal) {
	for _, r := range g.tree.Roots {
		_ = unix.PidfdSendSignal(r.PIDFD, sig, nil, 0) // gone is as good
	}
}

// EndAll leaves it to the guard, which can see everyone. Where that was killed as well,
// those who came home to init are lost.
func (g *launchedTree) EndAll() (freeze.Result, error) {
	if len(g.tree.Roots) < 2 { // its guard ends when nobody is left
		return freeze.Stop{Target: &g.tree}.Run()
	}
	_ = unix.PidfdSendSignal(g.tree.Roots[0].PIDFD, unix.SIGKILL, nil, 0) // the guard acts when it is gone
	guard := g.tree.Roots[len(g.tree.Roots)-1].PIDFD
	for deadline := time.Now().Add(protocol.GuardWithin); time.Now().Before(deadline); {
		g.WakeSupervisor() // a member may have stopped it, and do so again
		fds, err := linux.PollUntil(time.Now().Add(protocol.WakeEvery), unix.PollFd{Fd: int32(guard), Events: unix.POLLIN})
		if err == nil && fds[0].Revents != 0 {
			break
		}
	}
	g.tree.Spare = nil
	return freeze.Stop{Target: &g.tree}.Run()
}

// ownedTree is seen from its root: nobody can leave it.
type ownedTree struct {
	id      string
	tree    freeze.Tree
	guardFD int
	file    factsFile // -1 if there is none
}

// AdoptTree is the supervisor's view of the tree below it.
func AdoptTree(at *protocol.Placed, c *protocol.Config) (*ownedTree, error) {
	fd, err := unix.PidfdOpen(at.Guard, 0)
	if err != nil {
		return nil, fmt.Errorf("open pidfd of our guard: %w", err)
	}
	// Not whoever our parent is: if our guard was killed that is init, and everyone would be
	// below it. While it is our parent its pid can't be another's.
	if os.Getppid() != at.Guard {
		_ = unix.Close(fd) // of nobody we know
		return nil, errors.New("our guard was killed")
	}
	g := &ownedTree{id: at.ID, tree: OwnTree(supervisors()), guardFD: fd}
	if g.file, err = newFactsFile(); err != nil {
		return g, nil // it can't be listed then, and does all else
	}
	return g, g.file.writeFacts(factsOfTree(at, c))
}

// OwnTree is everyone below the calling process.
func OwnTree(spare func(proc.Stat) bool) freeze.Tree {
	return freeze.Tree{Roots: []freeze.Root{{PID: os.Getpid(), PIDFD: -1}}, Spare: spare}
}

func (g *ownedTree) Ident() string { return g.id }

func (g *ownedTree) Members() group.Payload { return &g.tree }

func (g *ownedTree) PayloadGroup() spawn.Group { return nil }

func (g *ownedTree) Guard() int { return g.guardFD }

func (g *ownedTree) Leave() {}

func (g *ownedTree) TagMembers() error { return nil } // it takes in nobody who is there already

func (g *ownedTree) Limit(cgroup.Limit, protocol.Backend) (string, error) {
	return "", group.ErrNoGroup
}

// Beside is where the groups of the backend cgroup are: whatever keeps a server from having one can have been
// left by another server.
func (g *ownedTree) Limited([]string) *cgroup.Group { return nil }

func (g *ownedTree) Beside() (parent *cgroup.Group, own string) {
	here, err := hierarchy.OwnPosition()
	if err != nil {
		return nil, ""
	}
	defer here.Root.Close()
	parent, err = here.Root.Child(path.Join(protocol.SliceName, strconv.Itoa(os.Getuid())))
	if err != nil {
		return nil, "" // no such server has run
	}
	return parent, ""
}

func (g *ownedTree) Ending(why protocol.Cause) {
	_ = g.file.Write(PartEnding, string(why)) // for people only
}

func (g *ownedTree) Note(notes []string) {
	_ = g.file.Write(PartNotes, group.NoteText(notes)) // for people only
}

// Nested: a supervisor that came home to us, the nearest subreaper. A member that
// pretends to be one gains the patience that a real one needs.
func (g *ownedTree) Nested(pid int) string {
	st, err := proc.ReadStat(pid)
	if err != nil || g.tree.Spare == nil || !g.tree.Spare(st) {
		return ""
	}
	return st.Comm
}

func (g *ownedTree) Elsewhere(pid int) bool {
	where, _, err := proc.ReadCgroup(pid)
	own, _, ownErr := proc.ReadCgroup(0)
	return err == nil && ownErr == nil && where != own
}

// supervisors recognises the supervisor, or its guard, of another server.
func supervisors() func(proc.Stat) bool {
	const first = "exe" // before it has its name: of /proc/self/exe, by which all are started
	var exe unix.Stat_t
	if unix.Stat("/proc/self/exe", &exe) != nil {
		return nil // without /proc nobody is found anyway
	}
	return func(st proc.Stat) bool {
		if st.Comm != protocol.CommOfGuards && st.Comm != first { // the cheap question first
			return false
		}
		var theirs unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/exe", st.PID), &theirs) != nil || theirs.Dev != exe.Dev || theirs.Ino != exe.Ino {
			return false
		}
		line, err := proc.Cmdline(st.PID, protocol.CommandMost)
		return err == nil && strings.HasPrefix(line, protocol.SuperviseLine)
	}
}
