// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MemoryName is how the page's file is called in /proc/PID/fd.
const MemoryName = "mcpscope"

// ReadPage is for a process that only looks at a guard: what SetConfig has written, and the cause. Both may be anything.
func ReadPage(fd int) (config []byte, cause uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, 0, fmt.Errorf("read memory file: %w", err)
	}
	const most = 8 << 20 // more than a command line can be
	all := make([]byte, min(max(st.Size, pageSize), most))
	if n, err := unix.Pread(fd, all, 0); err != nil || n < len(all) {
		return nil, 0, fmt.Errorf("read memory file: %w", errors.Join(err, unix.EIO))
	}
	page := (*Page)(unsafe.Pointer(&all[0]))
	at, size := page.configPlace()
	if at+size > int64(len(all)) {
		return nil, 0, fmt.Errorf("read memory file: %w", unix.EIO)
	}
	return all[at:][:size], page.Cause, nil
}
