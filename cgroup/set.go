// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// SetLimit sets one limit of g, and returns the new content of its file. The caller owns so many
// directories above g; in these SetLimit enables the controller.
func SetLimit(g *Group, l Limit, owned int) (now string, err error) {
	if err := EnableController(g, l.File, owned); err != nil {
		return "", err
	}
	err = g.Write(l.File, l.Value)
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("this kernel has no %s: %w", l.File, err)
	}
	if err != nil {
		return "", err
	}
	return ReadLimit(g, l.File)
}

// ReadLimit returns what a file says, as one line.
func ReadLimit(g *Group, file string) (string, error) {
	b, err := g.Read(file)
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ", "), err
}

// HasController reports whether g has the controller of a file.
func HasController(g *Group, file string) bool {
	return lists(g, "cgroup.controllers", Limit{File: file}.controller())
}

// HandsDown reports whether groups in g could have all of the limits: g delegates the controllers, and has
// no processes of its own.
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

// EnableController enables the controller of a file for g, beginning at the outermost directory that the
// caller owns.
func EnableController(g *Group, file string, owned int) error {
	controller := Limit{File: file}.controller()
	if lists(g, "cgroup.controllers", controller) {
		return nil
	}
	if owned == 0 {
		return fmt.Errorf("%s has no controller %s: %w", g.path, controller, errors.ErrUnsupported)
	}
	above, err := g.Parent()
	if err != nil {
		return err
	}
	defer above.Close()
	if err := EnableController(above, file, owned-1); err != nil {
		return err
	}
	err = above.Write("cgroup.subtree_control", "+"+controller)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s has processes beside its groups, and can't limit them by %s: %w",
			above.path, controller, err)
	}
	return err
}
