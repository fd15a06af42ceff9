// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

const hierarchy = "/sys/fs/cgroup"

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

// leftovers describes what the tests have left after the limit: every process in a group
// that was not there before or in our own, every unit made at run time, and every group
// that is no unit's. Services that systemd and the bus start by themselves when asked for,
// and slices, are no leftovers.
func leftovers(before map[string]bool, limit time.Duration) ([]string, error) {
	deadline := pace.Now().Add(limit)
	after, err := groups()
	if err != nil {
		return nil, err
	}
	own, err := bed.OwnGroup()
	if err != nil {
		return nil, err
	}
	var left []string
	for dir := range after {
		if dir != own && (before[dir] || ofTheSystem(dir)) {
			continue
		}
		var lines []string
		pace.Eventually(pace.Until(deadline), func() bool { // if not, it is in the list
			lines = describeGroup(dir)
			return len(lines) == 0
		})
		left = append(left, lines...)
	}
	slices.Sort(left)
	return left, nil
}

// ofTheSystem recognises the groups below a service that is not transient, other
// than a user manager, and those of a user manager itself.
func ofTheSystem(dir string) bool {
	rel := strings.TrimPrefix(dir, cgroup2()+"/")
	for unit := range strings.SplitSeq(rel, "/") {
		if strings.HasSuffix(unit, ".service") && !strings.HasPrefix(unit, "user@") && !transient(unit) {
			return true
		}
	}
	manager, below, ok := strings.Cut(rel, ".service/")
	return ok && strings.Contains(manager, "user@") && below == "init.scope"
}

// transient reports whether a manager has a unit of this name that was made at run time.
func transient(unit string) bool {
	for _, dir := range []string{"/run/systemd/transient/", "/run/user/*/systemd/transient/"} {
		if found, err := filepath.Glob(dir + unit); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// describeGroup says what is in a group but ourselves, or else what it is if it should not be there.
func describeGroup(dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil // it no longer exists
	}
	pids := strings.Fields(string(text))
	var lines []string
	for _, word := range pids {
		if pid, _ := strconv.Atoi(word); pid != os.Getpid() { // the kernel's own number
			lines = append(lines, bed.Describe(pid))
		}
	}
	rel := strings.TrimPrefix(dir, cgroup2()+"/")
	switch {
	case len(pids) > 0 || filepath.Base(dir) == "guards": // the product keeps this group while it is empty
		return lines
	case transient(filepath.Base(dir)):
		return []string{"unit " + rel}
	case filepath.Ext(dir) == "" && !bed.SharedSlice(rel): // no unit's name
		return []string{"group " + rel}
	}
	return nil
}
