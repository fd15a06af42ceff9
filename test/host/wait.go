// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// poll waits for input on a descriptor.
func poll(fd int, deadline time.Time) bool {
	for {
		ts := unix.NsecToTimespec(int64(pace.Step(deadline)))
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, &ts, nil)
		if n > 0 || err != nil && err != unix.EINTR || pace.Until(deadline) <= 0 {
			return n > 0
		}
	}
}

// awaitExit waits for the process behind a pidfd.
func awaitExit(pidfd int, limit time.Duration) bool {
	return poll(pidfd, pace.Now().Add(limit))
}

// awaitDir looks at a directory, now and after each change, until done is content.
func awaitDir(dir string, limit time.Duration, done func() bool) error {
	deadline := pace.Now().Add(limit)
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	defer unix.Close(watch)
	const changes = unix.IN_DELETE | unix.IN_MOVE | unix.IN_CLOSE_WRITE
	if _, err := unix.InotifyAddWatch(watch, dir, changes); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	for events := make([]byte, 4096); !done(); {
		if !poll(watch, deadline) {
			return fmt.Errorf("nothing came of %s in %v", dir, limit)
		}
		if _, err := unix.Read(watch, events); err != nil { // which one does not matter
			return os.NewSyscallError("read", err)
		}
	}
	return nil
}
