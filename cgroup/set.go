// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SetLimit makes one limit hold on g, and says what its file has then. Of the directories above g,
// from the next one on, so many are the caller's: in these a controller is enabled that is not.
func SetLimit(g *Group, l Limit, owned int) (now string, err error) {
	if err := enable(g, l.controller(), owned); err != nil {
		return "", err
	}
	if _, err := ReadLimit(g, l.File); err != nil {
		return "", err
	}
	if err := g.Write(l.File, l.Value); err != nil {
		return "", err
	}
	now, err = ReadLimit(g, l.File)
	if err == nil && !l.saidBy(now) {
		err = fmt.Errorf("%s was written to %s, which says %q", l.Value, l.File, now)
	}
	return now, err
}

// ReadLimit returns what a file says, as one line.
func ReadLimit(g *Group, file string) (string, error) {
	b, err := g.Read(file)
	if errors.Is(err, unix.ENOENT) {
		return "", fmt.Errorf("this kernel has no %s: %w", file, err)
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ", "), err
}

// saidBy tells whether a file has the value: the kernel adds words of its own (the period of
// cpu.max, other directions of io.max), and rounds memory down to pages.
func (l Limit) saidBy(now string) bool {
	want := strings.Fields(l.Value)
	for line := range strings.SplitSeq(now, ", ") {
		have := strings.Fields(line)
		if !slices.ContainsFunc(want, func(w string) bool {
			return !slices.ContainsFunc(have, func(h string) bool { return h == w || l.controller() == "memory" && rounded(h, w) })
		}) {
			return true
		}
	}
	return false
}

func rounded(have, want string) bool {
	h, herr := strconv.ParseUint(have, 10, 64)
	w, werr := strconv.ParseUint(want, 10, 64)
	return herr == nil && werr == nil && h <= w && w-h < uint64(os.Getpagesize()) && h%uint64(os.Getpagesize()) == 0
}

// HasController tells whether g has the controller that a file belongs to.
func HasController(g *Group, file string) bool {
	return lists(g, "cgroup.controllers", Limit{File: file}.controller())
}

// HandsDown tells whether groups in g could have all of the limits: it has their controllers for
// them, and no processes of its own.
func HandsDown(g *Group, all []Limit) bool {
	procs, err := g.Read("cgroup.procs")
	return err == nil && len(procs) == 0 && !slices.ContainsFunc(all, func(l Limit) bool {
		return !lists(g, "cgroup.subtree_control", l.controller())
	})
}

func lists(g *Group, file, controller string) bool {
	b, err := g.Read(file)
	return err == nil && slices.Contains(strings.Fields(string(b)), controller)
}

// enable hands a controller down to g, from the outermost directory that is the caller's.
func enable(g *Group, controller string, owned int) error {
	if owned == 0 || lists(g, "cgroup.controllers", controller) {
		return nil
	}
	above, err := g.Parent()
	if err != nil {
		return err
	}
	defer above.Close()
	if err := enable(above, controller, owned-1); err != nil {
		return err
	}
	if !lists(above, "cgroup.controllers", controller) {
		return missing(above, controller)
	}
	err = above.Write("cgroup.subtree_control", "+"+controller)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s has processes beside its groups, and can't limit them by %s: %w", where(above), controller, err)
	}
	return err
}

// Try hands the controller that a file belongs to down to g, as Set does, and tells whether g has it
// then. It is for what may as well be missing: it costs little where that can't be had.
func TryController(g *Group, file string, owned int) bool {
	return try(g, Limit{File: file}.controller(), owned)
}

func try(g *Group, controller string, owned int) bool {
	if lists(g, "cgroup.controllers", controller) {
		return true
	}
	if owned == 0 {
		return false
	}
	above, err := g.Parent()
	if err != nil {
		return false
	}
	defer above.Close()
	return try(above, controller, owned-1) && above.Write("cgroup.subtree_control", "+"+controller) == nil
}

// EnableController is TryController with the reason why g can't have the controller.
func EnableController(g *Group, file string, owned int) error {
	return enable(g, Limit{File: file}.controller(), owned)
}

// CountsMembersUse tells whether a limit is of something that members keep: what they had before it was
// counted is not theirs to give back.
func CountsMembersUse(file string) bool {
	return slices.Contains([]string{"memory", "hugetlb"}, Limit{File: file}.controller())
}
