// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// undoSudo gives up root where sudo was called by the owner of HOME (sudo -E): the files and backups in that
// home have to stay that user's. It returns the exit status of the command with that goal.
func undoSudo(euid int, stdio cli.Stdio, goal string) int {
	if err := becomeOwner(euid); err != nil {
		return stdio.Cannot(goal, err)
	}
	return cli.ExitOK
}

// becomeOwner has a process of root become the owner of HOME if that user has called sudo.
func becomeOwner(euid int) error {
	home, err := os.Stat(os.Getenv("HOME"))
	if err != nil || euid != 0 {
		return nil // a home that does not exist has no files to protect
	}
	owner := home.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 || strconv.Itoa(int(owner.Uid)) != os.Getenv("SUDO_UID") {
		return nil
	}
	groups := []int{int(owner.Gid)}
	// A user without an entry in the password database has the group of the home alone.
	if u, err := user.LookupId(strconv.Itoa(int(owner.Uid))); err == nil {
		ids, _ := u.GroupIds() // the one group, without a list
		for _, id := range ids {
			if gid, err := strconv.Atoi(id); err == nil {
				groups = append(groups, gid)
			}
		}
	}
	if err := become(int(owner.Uid), int(owner.Gid), groups); err != nil {
		return fmt.Errorf("become uid %d, which called sudo: %w", owner.Uid, err)
	}
	return nil
}

// become gives up root for good. The user comes last: afterwards there is no right to change groups.
func become(uid, gid int, groups []int) error {
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return err
	}
	return syscall.Setresuid(uid, uid, uid)
}
