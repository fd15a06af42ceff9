// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BytesMost bounds what is read of a command line, which may be anything.
const BytesMost = 16 << 10

const (
	argsMost        = 1024 // and variables
	environmentMost = 256 << 10
	page            = 4096
)

// Command reads what a process is about to execute. It takes the right to ptrace, without which argv is
// nil; so it is for programs of 32 bits and x32. missing: there is no such file, as in most directories of a
// search path.
func (r *Request) Command(pid int) (argv []string, missing bool) {
	native := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		native = unix.AUDIT_ARCH_AARCH64
	}
	at := r.Call == unix.SYS_EXECVEAT // its first argument is a directory
	if r.Arch != native || !at && r.Call != unix.SYS_EXECVE {
		return nil, false
	}
	address := r.Args[1]
	if at {
		address = r.Args[2]
	}
	argv, err := stringsAt(pid, address, BytesMost)
	if err != nil || at {
		return argv, false
	}
	name, err := stringAt(pid, r.Args[0])
	return argv, err == nil && isMissing(pid, name)
}

// Environment reads the variables that a process is about to pass on, if Command can read its arguments.
func (r *Request) Environment(pid int) []string {
	address := r.Args[2]
	if r.Call == unix.SYS_EXECVEAT {
		address = r.Args[3]
	}
	env, _ := stringsAt(pid, address, environmentMost) // a part is better than none
	return env
}

// isMissing looks for a file as a process names it.
func isMissing(pid int, name string) bool {
	from, how := "cwd", unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if strings.HasPrefix(name, "/") {
		from, how.Resolve = "root", unix.RESOLVE_IN_ROOT // links in it lead to where they lead for the caller
	}
	const above = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	dir, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, from), above, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, name, &how)
	if err == nil {
		_ = unix.Close(fd) // a path
	}
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// read reads what there is at an address, up to len(b).
func read(pid int, address uint64, b []byte) (int, error) {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	return n, nil
}

// stringAt reads page by page: the page behind the string may not be there.
func stringAt(pid int, address uint64) (string, error) {
	var all []byte
	for len(all) < BytesMost {
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

// stringsAt reads an array of pointers to strings, the last of which is nil, and not many more bytes than
// most.
func stringsAt(pid int, address uint64, most int) ([]string, error) {
	var all []string
	for size := 0; address != 0 && len(all) < argsMost && size < most; address += 8 {
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

// MayRead reports whether a watcher can read memory of a gateway's processes. Yama lets a process read that
// of its descendants alone, which those are not. Where seccomp refuses it, our own can't be read either.
// Neither this nor Capable needs a Go runtime.
func MayRead() bool {
	const file = "/proc/sys/kernel/yama/ptrace_scope\x00"
	here, at := unix.AT_FDCWD, uintptr(unsafe.Pointer(unsafe.StringData(file)))
	scope := byte('0') // without yama
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), at, unix.O_CLOEXEC, 0, 0, 0)
	if errno == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&scope)), 1)
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	own := uintptr(unix.Getpid())
	_, _, errno = unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, own, 0, 0, 0, 0, 0)
	return errno != unix.EPERM && (scope == '0' || Capable(unix.CAP_SYS_PTRACE))
}

func Capable(of uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	at, to := uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data))
	_, _, errno := unix.RawSyscall(unix.SYS_CAPGET, at, to, 0)
	return errno == 0 && data[0].Effective&(1<<of) != 0
}
