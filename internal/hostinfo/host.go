// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hostinfo

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
)

// Host contains facts about a host that can be read without changing it. They explain why a backend works or
// fails; only a server that runs on it proves that it works. Fields are only added.
type Host struct {
	Kernel   Kernel         `json:"kernel"`
	Cgroup   Hierarchy      `json:"cgroup"`
	Managers []ManagerFacts `json:"managers"`
	// Lingering is nil where there is no logind that knows our user.
	Lingering *bool     `json:"lingering,omitempty"`
	Init      InitFacts `json:"init"`
	Unit      *Unit     `json:"unit,omitempty"`
	// Swap is where the memory of idle servers can go: "zram", "disk", or "" for nowhere.
	Swap string `json:"swap,omitempty"`
}

// Hierarchy is where we are in which cgroup2 hierarchy.
type Hierarchy struct {
	Mount string `json:"mount,omitempty"`
	Path  string `json:"path,omitempty"`
	// Hybrid is one beside cgroup v1, whose controllers it lacks.
	Hybrid bool `json:"hybrid"`
	// Private is a cgroup namespace other than the machine's.
	Private bool `json:"private_namespace"`
	// Problem is why no group can be made in it by anyone, "" if there is no reason.
	Problem string `json:"problem,omitempty"`
}

// InitFacts are about the process that orphans go to.
type InitFacts struct {
	Name string `json:"name,omitempty"`
	// Reaps is false unless it is known to wait for them.
	Reaps bool `json:"reaps"`
}

// Read reads it all. Managers that do not answer are waited for, both together, for
// a second.
func Read() Host {
	here, err := hierarchy.OwnPosition()
	if err == nil {
		defer here.Root.Close()
	}
	h := Host{Cgroup: hierarchyOf(here, err), Init: initFacts(), Kernel: kernelInfo(), Swap: swap()}
	h.Lingering = lingering(os.Getuid())
	h.Unit = unitAt(h.Cgroup.Path)
	h.Managers = managerInfo(h.Unit)
	return h
}

func swap() (kind string) {
	text, _ := os.ReadFile("/proc/swaps") // none, on a kernel without swap
	for i, line := range slices.Collect(strings.Lines(string(text))) {
		switch {
		case i == 0: // the heading
		case strings.HasPrefix(line, "/dev/zram"):
			return "zram"
		default:
			kind = "disk"
		}
	}
	return kind
}

// FindHierarchy says why no group can be made here by anyone, nil if there is no reason.
func FindHierarchy() error {
	here, err := hierarchy.OwnPosition()
	if err == nil {
		_ = here.Root.Close() // a directory
	}
	return err
}

// OwnGroup is where we are, and which controllers the group above has for it: inside of
// a server those that its limits could be made of.
func OwnGroup() (at string, controllers []string) {
	here, err := hierarchy.OwnPosition()
	if err != nil {
		at, _, _ = proc.ReadCgroup(0) // where there is one
		return at, nil
	}
	defer here.Root.Close()
	above, err := here.Root.Child(path.Join(".", path.Dir(here.Path)))
	if err != nil {
		return here.Path, nil
	}
	defer above.Close()
	list, _ := above.Read("cgroup.controllers") // none, if it can't be read
	return here.Path, strings.Fields(string(list))
}

func hierarchyOf(at hierarchy.Position, err error) Hierarchy {
	h := Hierarchy{Path: at.Path, Private: hierarchy.Namespace("cgroup") != initialCgroupNamespace}
	if err != nil {
		h.Problem = err.Error()
		h.Path, _, _ = proc.ReadCgroup(0) // where there is one
	}
	if at.Root != nil {
		h.Mount = at.Root.Path()
	}
	h.Hybrid = strings.HasSuffix(h.Mount, "/unified") || versionOne()
	return h
}

// versionOne reports whether this process is also in groups of cgroup v1 hierarchies. systemd's
// "name=systemd" counts although it has no controllers: only a hybrid hierarchy contains it.
func versionOne() bool {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "0::") {
			return true
		}
	}
	return false
}

func initFacts() InitFacts {
	f := InitFacts{Reaps: hierarchy.InitReaps()}
	if st, err := proc.ReadStat(1); err == nil {
		f.Name = st.Comm
	}
	return f
}

// initialCgroupNamespace is the inode number of the machine's own (PROC_CGROUP_INIT_INO).
const initialCgroupNamespace = 0xEFFFFFFB

// lingering reads the files of logind, which are named after users.
func lingering(uid int) *bool {
	state, err := os.ReadFile("/run/systemd/users/" + strconv.Itoa(uid))
	if err != nil {
		return nil // neither logged in nor lingering, or there is no logind
	}
	for line := range strings.Lines(string(state)) {
		if user, ok := strings.CutPrefix(strings.TrimSpace(line), "NAME="); ok {
			_, err := os.Stat("/var/lib/systemd/linger/" + user)
			lingers := !errors.Is(err, fs.ErrNotExist)
			return &lingers
		}
	}
	return nil
}
