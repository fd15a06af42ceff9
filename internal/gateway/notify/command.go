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
	pageSize        = 4096
)

// Command reads what a process is about to execute. It takes the right to ptrace, without which argv is
// nil; so it is for programs of 32 bits and x32. missing: there is no such file, as in most directories of a
// search path.
func (r *Request) Command(pid int) (argv []string, missing bool) {
	isExecveat := r.Call == unix.SYS_EXECVEAT
	if !r.isNative() || !isExecveat && r.Call != unix.SYS_EXECVE {
		return nil, false
	}
	address := r.Args[1]
	if isExecveat { // its first argument is a directory
		address = r.Args[2]
	}
	argv, err := stringsAt(pid, address, BytesMost)
	if err != nil || isExecveat {
		return argv, false
	}
	name, err := stringAt(pid, r.Args[0])
	return argv, err == nil && isMissing(pid, name, 0)
}

const resolveCached = 0x20 // RESOLVE_CACHED of openat2(2), Linux 5.12

// IsKnownMissing reports whether the kernel remembers that there is no such file. It does not wait for a file
// system. Most calls of execve are such ones, as a program is looked for in the directories of PATH.
func (r *Request) IsKnownMissing() bool {
	if !r.isNative() || r.Call != unix.SYS_EXECVE {
		return false
	}
	tid := int(r.TID)
	name, err := stringAt(tid, r.Args[0])
	return err == nil && isMissing(tid, name, resolveCached)
}

// isNative is false for a program of 32 bits.
func (r *Request) isNative() bool {
	if runtime.GOARCH == "arm64" {
		return r.Arch == unix.AUDIT_ARCH_AARCH64
	}
	return r.Arch == unix.AUDIT_ARCH_X86_64
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

// isMissing looks for a file as a process names it. resolve is 0, or resolveCached.
func isMissing(pid int, name string, resolve uint64) bool {
	from := "cwd"
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
	if strings.HasPrefix(name, "/") {
		from = "root"
		how.Resolve |= unix.RESOLVE_IN_ROOT // links in it lead to where they lead for the caller
	}
	const openDirectory = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	dir, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, from), openDirectory, 0)
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

// memory reads the memory of a process that waits. It keeps the last page that it has read: texts and
// pointers mostly follow each other.
type memory struct {
	pid   int
	first uint64 // the address of bytes
	bytes []byte
	page  [pageSize]byte
}

// bytesAt returns the bytes from an address to the end of its page: the page behind it may not be there.
func (m *memory) bytesAt(address uint64) ([]byte, error) {
	offset := address - m.first
	if address >= m.first && offset < uint64(len(m.bytes)) {
		return m.bytes[offset:], nil
	}
	b := m.page[:pageSize-address%pageSize]
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}
	n, err := unix.ProcessVMReadv(m.pid, local, remote, 0)
	if err != nil {
		m.bytes = nil
		return nil, fmt.Errorf("read memory of process %d: %w", m.pid, err)
	}
	m.first = address
	m.bytes = b[:n]
	return m.bytes, nil
}

// stringAt reads a text that ends with a 0.
func (m *memory) stringAt(address uint64) (string, error) {
	var text []byte
	for len(text) < BytesMost {
		b, err := m.bytesAt(address)
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(append(text, b[:i]...)), nil
		}
		text = append(text, b...)
		address += uint64(len(b))
	}
	return string(text), nil
}

// pointersAt reads pointers, up to the one that is nil. Each is aligned, so none is in two pages.
func (m *memory) pointersAt(address uint64) (pointers []uint64, err error) {
	for address != 0 && len(pointers) < argsMost {
		b, err := m.bytesAt(address)
		if err != nil || len(b) < 8 {
			return nil, err
		}
		pointer := binary.NativeEndian.Uint64(b)
		if pointer == 0 {
			break
		}
		pointers = append(pointers, pointer)
		address += 8
	}
	return pointers, nil
}

func stringAt(pid int, address uint64) (string, error) {
	m := memory{pid: pid}
	return m.stringAt(address)
}

// stringsAt reads an array of pointers to strings, the last of which is nil, and not many more bytes than
// most.
func stringsAt(pid int, address uint64, most int) ([]string, error) {
	m := memory{pid: pid}
	pointers, err := m.pointersAt(address)
	if err != nil {
		return nil, err
	}
	var texts []string
	size := 0
	for _, pointer := range pointers {
		text, err := m.stringAt(pointer)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
		size += len(text)
		if size >= most {
			break
		}
	}
	return texts, nil
}

// MayReadMemory reports whether a watcher can read memory of a gateway's processes. Yama lets a process
// read that of its descendants alone, which those are not. Where seccomp refuses it, our own can't be read
// either. Neither this nor Capable needs a Go runtime.
func MayReadMemory() bool {
	const file = "/proc/sys/kernel/yama/ptrace_scope\x00"
	here := unix.AT_FDCWD
	path := uintptr(unsafe.Pointer(unsafe.StringData(file)))
	scope := byte('0') // without yama
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), path, unix.O_CLOEXEC, 0, 0, 0)
	if errno == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&scope)), 1)
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	own := uintptr(unix.Getpid())
	_, _, errno = unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, own, 0, 0, 0, 0, 0)
	return errno != unix.EPERM && (scope == '0' || Capable(unix.CAP_SYS_PTRACE))
}

// Capable reports whether the calling thread has a capability.
func Capable(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	headerAddress := uintptr(unsafe.Pointer(&header))
	dataAddress := uintptr(unsafe.Pointer(&data))
	_, _, errno := unix.RawSyscall(unix.SYS_CAPGET, headerAddress, dataAddress, 0)
	return errno == 0 && data[0].Effective&(1<<capability) != 0
}
