// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

// Without root, or where the home is not that of the user who called sudo, this process stays as it is.
func TestUndoSudo(t *testing.T) {
	u := newUser(t)
	for _, c := range []struct{ home, uid string }{
		{u.home, ""}, {u.home, "0"}, {u.home, "1234"}, {u.home + "/none", "1234"}, {"", "1234"},
	} {
		t.Setenv("HOME", c.home)
		t.Setenv("SUDO_UID", c.uid)
		before := os.Geteuid()
		if err := becomeOwner(before); err != nil || os.Geteuid() != before {
			t.Errorf("%+v: uid %d, %v", c, os.Geteuid(), err)
		}
	}
}

// The command of a user whose files it could not leave to that user changes nothing.
func TestUndoSudoFails(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		newUser(t)
		uid := strconv.Itoa(os.Getuid())
		t.Setenv("SUDO_UID", uid)
		got := printed(func(stdio cli.Stdio) int { return undoSudo(0, stdio, "wrap") })
		wantSaid(t, "sudo", got, failure("wrap: become uid "+uid+", which called sudo: operation not permitted", ""))
	})
}

// Only root can become another user.
func TestBecome(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		if err := become(1234, 1234, []int{1234}); !errors.Is(err, syscall.EPERM) {
			t.Errorf("%v", err)
		}
	})
}

// sudo without any file in root's home has another hint than no file at all.
func TestNoFileBySudo(t *testing.T) {
	got := printed(func(stdio cli.Stdio) int {
		r := rewriting{stdio: stdio, verb: "wrap"}
		return r.cannotAsRoot("wrap", "sudo uses the home of root")
	})
	wantSaid(t, "sudo", got, failure("wrap: sudo uses the home of root", "mcpscope wrap, without sudo"))
}

// sudo without the user's home finds other configurations than those of the user, and does not touch files of
// the user.
func TestWrapBySudo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is called by sudo")
	}
	u := newUser(t)
	t.Setenv("SUDO_UID", "1234")
	if err := os.Chown(u.config, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"wrap", "unwrap"} {
		args := []string{verb}
		if verb == "wrap" {
			args = append(args, "--program", u.program)
		}
		hint := "hint: mcpscope " + verb + ", without sudo"
		u.wants(1, []string{"cannot " + verb + " " + u.config + ": sudo uses the home of root, and the file is yours", hint},
			append(args, u.config)...)
	}
	u.wantsFile(cursor)
	if err := os.Remove(u.config); err != nil {
		t.Fatal(err)
	}
	u.wants(1, []string{"cannot unwrap: no client configuration found in the home or working directory, or above it; sudo uses the home of root",
		"hint: mcpscope unwrap, without sudo"}, "unwrap")
}
