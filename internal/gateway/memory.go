// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/notify"
)

const page = 4096

// at: the call was execveat, whose first argument is a directory.
func at(r *notify.Request) bool { return r.Call == unix.SYS_EXECVEAT }

// compat: the caller is a program of 32 bits, or of x32.
func compat(r *notify.Request) bool {
	native := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	return r.Arch != native || r.Call != unix.SYS_EXECVE && r.Call != unix.SYS_EXECVEAT
}

// read reads what there is at an address, up to len(b). It takes the right to ptrace.
func read(pid int, address uint64, b []byte) (int, error) {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	return n, nil
}

// pathOf is the beginning of the file's name that is to be executed, "" where it can't be read.
func pathOf(r *notify.Request) string {
	address := r.Args[0]
	if at(r) {
		address = r.Args[1]
	}
	if compat(r) {
		return ""
	}
	var b [256]byte
	n, err := read(int(r.TID), address, b[:min(page-address%page, uint64(len(b)))])
	if err != nil {
		return ""
	}
	name, _, _ := bytes.Cut(b[:n], []byte{0})
	return string(name)
}

// stringAt reads page by page: what follows the string's own page may not be there.
func stringAt(pid int, address uint64) (string, error) {
	var all []byte
	for len(all) < bytesMost {
		b := make([]byte, page-address%page)
		n, err := read(pid, address, b)
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b[:n], 0); i >= 0 {
			return string(append(all, b[:i]...)), nil
		}
		all = append(all, b[:n]...)
		address += uint64(n)
	}
	return string(all), nil
}

// stringsAt reads an array of pointers to strings, the last of which is nil.
func stringsAt(pid int, address uint64) ([]string, error) {
	var all []string
	for size := 0; address != 0 && len(all) < argsMost && size < bytesMost; address += 8 {
		var b [8]byte
		if _, err := read(pid, address, b[:]); err != nil {
			return nil, err
		}
		pointer := binary.NativeEndian.Uint64(b[:])
		if pointer == 0 {
			break
		}
		s, err := stringAt(pid, pointer)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		size += len(s)
	}
	return all, nil
}
