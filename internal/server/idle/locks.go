// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"math"
	"os"
	"strconv"
	"strings"
)

// fileLock is a lock on a file, or on the bytes from first to last.
type fileLock struct {
	isShared    bool
	first, last uint64
}

// heldLocks are the locks of one process, by the path of the file.
type heldLocks map[string][]fileLock

// Locks of SQLite (os_unix.c). Whoever reads or writes a database locks sqliteShared of it. A connection in
// WAL mode holds that and sqliteConnection of the file with the suffix for as long as it is open, and nobody
// waits for either. Its transactions lock other bytes of that file.
var (
	sqliteShared     = fileLock{isShared: true, first: 1<<30 + 2, last: 1<<30 + 511}
	sqliteConnection = fileLock{isShared: true, first: 128, last: 128}
)

const sqliteSuffix = "-shm"

// mayBeAwaited reports whether another process may wait for one of the locks: a reader waits for an exclusive
// lock, and a writer for a shared one. A server with an idle connection to SQLite is not kept awake by that.
func (h heldLocks) mayBeAwaited() bool {
	for path, locks := range h {
		for _, l := range locks {
			if !h.isIdleConnection(path, l) {
				return true
			}
		}
	}
	return false
}

func (h heldLocks) isIdleConnection(path string, l fileLock) bool {
	switch l {
	case sqliteConnection:
		return strings.HasSuffix(path, sqliteSuffix)
	case sqliteShared:
		for _, beside := range h[path+sqliteSuffix] {
			if beside == sqliteConnection {
				return true
			}
		}
	}
	return false
}

// readLocks returns the lines about the locks that an open file holds, and the locks. Only the open file that
// was used to take a lock shows it.
func readLocks(link string) (lines string, locks []fileLock) {
	info, _ := os.ReadFile(strings.Replace(link, "/fd/", "/fdinfo/", 1)) // none, if it was closed
	for line := range strings.Lines(string(info)) {
		if strings.HasPrefix(line, "lock:") {
			lines += line
			locks = append(locks, parseLock(line))
		}
	}
	return lines, locks
}

// parseLock reads a line of proc_pid_fdinfo(5), which ends with the first and the last byte, or EOF:
//
//	lock:	1: POSIX  ADVISORY  READ 1407 fd:00:1179 128 128
//
// A line that is different is an exclusive lock.
func parseLock(line string) fileLock {
	const (
		kind   = 4 // READ or WRITE
		fields = 9
	)
	words := strings.Fields(line)
	if len(words) != fields || words[kind] != "READ" {
		return fileLock{}
	}
	first, err := strconv.ParseUint(words[fields-2], 10, 64)
	if err != nil {
		return fileLock{}
	}
	last, err := strconv.ParseUint(words[fields-1], 10, 64)
	if err != nil { // EOF
		last = math.MaxUint64
	}
	return fileLock{isShared: true, first: first, last: last}
}
