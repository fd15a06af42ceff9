// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// Commands that change files wait for each other, also before they read: what the first one has written is what the
// second one changes.
func TestWrapWaitsForAnother(t *testing.T) {
	t.Run("wrap", func(t *testing.T) {
		u := newUser(t)
		lock := holdLock(t, u.lock())
		result := make(chan said)
		go func() { result <- say("wrap", "--program", u.program, "--yes", u.config) }()
		lock.untilAwaited(t, result)
		u.write(u.config, strings.ReplaceAll(cursor, "uvx", "npx")) // by the command that has the lock
		lock.release(t)
		if s := <-result; s.status != cli.ExitOK {
			t.Errorf("%+v", s)
		}
		u.wantsFile(strings.ReplaceAll(wrapped(u.program, ""), "uvx", "npx"))
	})
	t.Run("unwrap", func(t *testing.T) {
		u := newUser(t)
		lock := holdLock(t, u.lock())
		result := make(chan said)
		go func() { result <- say("unwrap", "--yes", u.config) }()
		lock.untilAwaited(t, result)
		u.write(u.config, wrapped(u.program, ""))
		lock.release(t)
		if s := <-result; s.status != cli.ExitOK {
			t.Errorf("%+v", s)
		}
		u.wantsFile(cursor)
		if _, err := os.Stat(filepath.Dir(u.lock())); err == nil {
			t.Error("the directory of the lock is left")
		}
	})
}

// What changes nothing waits for nobody, and leaves nothing.
func TestDryRunTakesNoLock(t *testing.T) {
	u := newUser(t)
	lock := holdLock(t, u.lock())
	u.wants(cli.ExitOK, nil, "wrap", "--program", u.program, "--dry-run")
	u.wants(cli.ExitFailure, nil, "wrap", "--program", u.program, "--check")
	lock.release(t)
	local := filepath.Join(u.home, ".local")
	if err := os.RemoveAll(local); err != nil {
		t.Fatal(err)
	}
	u.wants(cli.ExitOK, nil, "unwrap", "--yes")
	if _, err := os.Stat(local); err == nil {
		t.Error("the directories of the lock are left")
	}
}

func (u *homeUser) lock() string { return filepath.Join(u.home, ".local/state/mcpscope/lock") }

// heldLock is a lock as another command has it.
type heldLock struct {
	path string
	file *os.File
}

func holdLock(t *testing.T, path string) *heldLock {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return &heldLock{path, file}
}

// untilAwaited returns when the kernel shows that somebody waits for the lock. The command must not end before.
func (l *heldLock) untilAwaited(t *testing.T, result chan said) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(l.file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf(":%d ", st.Ino)
	for {
		table, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, file) {
				return
			}
		}
		select {
		case s := <-result:
			t.Fatalf("it did not wait: %+v", s)
		case <-time.After(time.Millisecond):
		}
	}
}

// release ends as a command does.
func (l *heldLock) release(t *testing.T) {
	t.Helper()
	_ = os.Remove(l.path)
	_ = os.Remove(filepath.Dir(l.path)) // unless there are backups
	if err := l.file.Close(); err != nil {
		t.Fatal(err)
	}
}
