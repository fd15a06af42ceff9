// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// AwaitRemoval waits until a directory no longer exists.
func AwaitRemoval(dir string, limit time.Duration) error {
	return awaitChange(dir, unix.IN_DELETE, limit, func() bool {
		_, err := os.Stat(dir)
		return err != nil
	})
}

// SweepUntil sweeps once, and again until the groups that a manager has forgotten no longer exist. It forgets
// a group only after it has tried to stop the unit, and no event reports that.
func SweepUntil(gone func() bool, sweep func()) {
	sweep()
	for pause := time.Millisecond; pause < Patience && !gone(); pause *= 2 {
		PollFor(pause)
		sweep()
	}
}

// AwaitScope waits until the manager has the scope of a server, whose directory mcpscope may have made.
func AwaitScope(group string, limit time.Duration) error {
	for pause := time.Millisecond; pause < limit; pause *= 2 { // no event reports a process that is moved
		if _, err := os.Stat(filepath.Join(group, "guards")); err == nil {
			return nil
		}
		PollFor(pause)
	}
	return fmt.Errorf("no leaf for guards is in %s; notes %q", group, attr(group, "notes"))
}

// AwaitNote waits for a note on a server.
func AwaitNote(group, part string, limit time.Duration) error {
	return awaitAttr(group, "notes", limit, func(text string) bool { return strings.Contains(text, part) })
}

// AwaitIdle waits until a server is frozen because it is idle and has been woken at least wakes times.
func AwaitIdle(group string, wakes int, limit time.Duration) error {
	return awaitIdle(group, limit, func(since int64, n int) bool { return since != 0 && n >= wakes })
}

// AwaitWake waits until a server has been woken at least wakes times.
func AwaitWake(group string, wakes int, limit time.Duration) error {
	return awaitIdle(group, limit, func(_ int64, n int) bool { return n >= wakes })
}

func awaitIdle(group string, limit time.Duration, wanted func(since int64, wakes int) bool) error {
	return awaitAttr(group, "idle", limit, func(text string) bool {
		var since int64
		var wakes int
		n, _ := fmt.Sscan(text, &since, &wakes)
		return n == 2 && wanted(since, wakes)
	})
}

// awaitAttr waits until wanted accepts an attribute of the payload, "" if it is not set.
func awaitAttr(group, name string, limit time.Duration, wanted func(text string) bool) error {
	err := awaitChange(filepath.Join(Payload(group), "cgroup.procs"), unix.IN_ATTRIB, limit, func() bool { return wanted(attr(group, name)) })
	if err != nil {
		return fmt.Errorf("%w; %s %q, notes %q", err, name, attr(group, name), attr(group, "notes"))
	}
	return nil
}

// AwaitText waits until wanted accepts the text of a file that grows.
func AwaitText(file string, limit time.Duration, wanted func(text string) bool) error {
	return awaitChange(file, unix.IN_CREATE|unix.IN_MODIFY, limit, func() bool {
		text, _ := os.ReadFile(file) // none yet
		return wanted(string(text))
	})
}

// awaitChange calls done now and after each change of path's directory, until it returns true.
func awaitChange(path string, changes uint32, limit time.Duration, done func() bool) error {
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	defer unix.Close(watch)
	deadline := pace.Now().Add(limit)
	if _, err := unix.InotifyAddWatch(watch, filepath.Dir(path), changes); err != nil && !done() {
		return fmt.Errorf("watch for %s: %w", path, err)
	}
	for !done() {
		if !PollFor(pace.Until(deadline), unix.PollFd{Fd: int32(watch), Events: unix.POLLIN}) {
			return fmt.Errorf("%s has not changed in %v", path, limit)
		}
		_, _ = unix.Read(watch, make([]byte, 4096)) // that it happened is all that matters
	}
	return nil
}

// attr returns an attribute of the payload, "" if it is not set.
func attr(group, name string) string {
	text := make([]byte, 4096)
	n, _ := unix.Getxattr(Payload(group), "user.mcpscope."+name, text)
	return string(text[:max(n, 0)])
}
