// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

const hierarchy = "/sys/fs/cgroup"

// settle is what processes get to be gone after the tests.
const settle = 5 * time.Second

// cgroup2 is where the groups are: on a hybrid host not where those of version 1 are.
func cgroup2() string {
	if _, err := os.Stat(hierarchy + "/unified/cgroup.procs"); err == nil {
		return hierarchy + "/unified"
	}
	return hierarchy
}

// groups is the set of all groups of the host that we are in.
func groups() (map[string]bool, error) {
	all := make(map[string]bool)
	err := filepath.WalkDir(cgroup2(), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we walk
		}
		if err == nil && d.IsDir() {
			all[path] = true
		}
		return err
	})
	return all, err
}

// leftovers describes what the tests have left: every process in a group that was
// not there before, every unit made at run time, and every group that is no unit's.
// Services that systemd and the bus start by themselves when asked for, and slices,
// are no leftovers.
func leftovers(before map[string]bool) ([]string, error) {
	deadline := pace.Now().Add(settle)
	after, err := groups()
	if err != nil {
		return nil, err
	}
	var left []string
	for dir := range after {
		if before[dir] || ofTheSystem(dir) {
			continue
		}
		if len(describeGroup(dir)) > 0 { // who is late is in the list
			_ = bed.WaitEmpty(dir, max(pace.Until(deadline), 0))
			awaitUnitGone(dir, deadline)
		}
		left = append(left, describeGroup(dir)...)
	}
	beside, err := besideUs(deadline)
	left = append(left, beside...)
	slices.Sort(left)
	return left, err
}

// besideUs describes the processes in the group that this one was in from the start.
func besideUs(deadline time.Time) ([]string, error) {
	own, err := bed.OwnGroup()
	if err != nil {
		return nil, err
	}
	for _, pid := range processes(own) {
		if n, _ := strconv.Atoi(pid); n != os.Getpid() { // the kernel's own number
			awaitEnd(n, deadline)
		}
	}
	return slices.DeleteFunc(describeGroup(own), func(line string) bool {
		return strings.HasPrefix(line, fmt.Sprintf("pid %d ", os.Getpid()))
	}), nil
}

// awaitEnd waits for a process of any parent.
func awaitEnd(pid int, deadline time.Time) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone already
	}
	defer unix.Close(pidfd)
	poll(pidfd, deadline)
}

// awaitUnitGone waits for the manager, which is told of an empty group and then
// forgets the unit, with all groups below it.
func awaitUnitGone(dir string, deadline time.Time) {
	for unit := range strings.SplitSeq(strings.TrimPrefix(dir, cgroup2()+"/"), "/") {
		file := transientFile(unit)
		if file == "" {
			continue
		}
		_ = awaitDir(filepath.Dir(file), max(pace.Until(deadline), 0), func() bool { // if not, it is in the list
			_, err := os.Stat(file)
			return err != nil
		})
	}
}

// ofTheSystem recognises the groups below a service that is not transient, other
// than a user manager, and those of a user manager itself.
func ofTheSystem(dir string) bool {
	rel := strings.TrimPrefix(dir, cgroup2()+"/")
	if strings.HasSuffix(rel, "mcp.slice/leaving") {
		return true // stays where somebody has made it, empty
	}
	for unit := range strings.SplitSeq(rel, "/") {
		if strings.HasSuffix(unit, ".service") && !strings.HasPrefix(unit, "user@") && transientFile(unit) == "" {
			return true
		}
	}
	manager, below, ok := strings.Cut(rel, ".service/")
	return ok && strings.Contains(manager, "user@") && below == "init.scope"
}

// transientFile is where a manager keeps a unit that was made at run time, or "".
func transientFile(unit string) string {
	for _, pattern := range []string{"/run/systemd/transient/", "/run/user/*/systemd/transient/"} {
		if found, err := filepath.Glob(pattern + unit); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// processes are the pids in a group; one that is gone has none.
func processes(dir string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return strings.Fields(string(text))
}

func describeGroup(dir string) []string {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	rel := strings.TrimPrefix(dir, cgroup2()+"/")
	var lines []string
	for _, pid := range processes(dir) {
		lines = append(lines, fmt.Sprintf("pid %s (%s) in %s", pid, comm(pid), rel))
	}
	switch {
	case len(lines) > 0:
	case filepath.Base(dir) == "leaving": // a delegated group keeps it, empty
	case transientFile(filepath.Base(dir)) != "":
		lines = append(lines, "unit "+rel)
	case filepath.Ext(dir) == "" && !bed.SharedSlice(rel): // no unit's name
		lines = append(lines, "group "+rel)
	}
	return lines
}

// comm is for a listing only: a process that ends meanwhile shows as empty.
func comm(pid string) string {
	text, _ := os.ReadFile("/proc/" + pid + "/comm")
	return strings.TrimSpace(string(text))
}
