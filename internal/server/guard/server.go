// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Server describes the main process.
type Server struct {
	Path      string
	Argv, Env []string
	Pgid      int          // process group to join; 0 makes a new one
	NoFile    *unix.Rlimit // RLIMIT_NOFILE; nil: the launcher's
	Locks     *unix.Rlimit // RLIMIT_LOCKS, the tag; nil: the launcher's
	Mask      uint64       // blocked signals: signal n is bit n-1. Ignored signals stay ignored
	Shell     bool         // execute a file without "#!" by /bin/sh, as execvp(3)
}

// Options are those of Fork.
type Options struct {
	Name string   // the guard's comm, at most 15 bytes
	Argv []string // of a later brain; the numbers of the page's file and of its socket follow
	Env  []string // of a later brain
	// Readable leaves the page to other processes of this user: a tree has nothing else that could be listed.
	Readable bool
	// Gate is for the guard of a gateway.
	Gate Gate
}

// Fork starts the guard, before there is a group: from then on the launcher's death leaves nothing. The server
// is prepared here and starts by Go. Without one (nil) the main process is not the guard's child. Fork makes
// the calling process undumpable before there is a server that could open the page.
func Fork(page *Page, s *Server, o *Options) (*Guard, error) {
	if o.Readable {
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // the guard's copy of this process stays as it is
	} else if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	p, err := newProcess(s, o)
	if err != nil {
		return nil, err
	}
	leaveOut()
	if what, errno := p.fork(page); errno != 0 {
		return nil, fmt.Errorf("%s: %w", what, errno)
	}
	return page.Guard(), nil
}

// newProcess maps and fills the guard's memory.
func newProcess(s *Server, o *Options) (*process, error) {
	lists := [][]string{o.Argv, {"", ""}, o.Env}
	var shellArgv []string
	if s != nil {
		shellArgv = append([]string{"/bin/sh", s.Path}, s.Argv[min(1, len(s.Argv)):]...)
		lists = append(lists, []string{s.Path, shellArgv[0]}, s.Argv, s.Env, shellArgv)
	}
	size := 0
	for _, list := range lists {
		size += 8 + 7 // the end, and the alignment before it
		for _, text := range list {
			size += len(text) + 1 + 8
			if bytes.IndexByte(unsafe.Slice(unsafe.StringData(text), len(text)), 0) >= 0 {
				return nil, fmt.Errorf("argument %q: %w", text, unix.EINVAL)
			}
		}
	}
	p, errno := mapProcess(uintptr(size))
	if errno != 0 {
		return nil, fmt.Errorf("map the guard's memory: %w", errno)
	}
	copy(p.name[:len(p.name)-1], o.Name)
	p.gate = o.Gate
	rest := arena(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p), fixedSize)), size))
	p.argv = rest.list(o.Argv, uintptr(unsafe.Pointer(&p.numbers[0])), uintptr(unsafe.Pointer(&p.numbers[1])))
	p.env = rest.list(o.Env)
	if s == nil {
		return p, nil
	}
	m := &p.main
	m.wanted = true
	m.argv, m.env, m.path = rest.list(s.Argv), rest.list(s.Env), rest.string(s.Path)
	if s.Shell {
		m.shellArgv = rest.list(shellArgv)
		m.shell = rest.string(shellArgv[0])
	}
	m.pgid, m.mask = uintptr(s.Pgid), s.Mask
	if s.NoFile != nil {
		m.nofile, m.limitsFiles = *s.NoFile, true
	}
	if s.Locks != nil {
		m.locks, m.limitsLocks = *s.Locks, true
	}
	return p, nil
}

// arena is memory for strings as execve(2) wants them.
type arena []byte

func (a *arena) take(n int) []byte {
	part := (*a)[:n:n]
	*a = (*a)[n:]
	return part
}

func (a *arena) string(s string) uintptr {
	text := a.take(len(s) + 1)
	copy(text, s)
	return uintptr(unsafe.Pointer(&text[0]))
}

// list ends with the texts at more.
func (a *arena) list(all []string, more ...uintptr) uintptr {
	if pad := int(-uintptr(unsafe.Pointer(unsafe.SliceData(*a))) & 7); pad > 0 {
		a.take(pad)
	}
	n := len(all) + len(more)
	words := a.take(8 * (n + 1))
	pointers := unsafe.Slice((*uintptr)(unsafe.Pointer(&words[0])), n+1)
	for i, s := range all {
		pointers[i] = a.string(s)
	}
	copy(pointers[len(all):], more)
	return uintptr(unsafe.Pointer(&words[0]))
}

// leaveOut keeps all writable memory out of the guard's copy (MADV_DONTFORK) but the command line and shared
// mappings. Neither its page tables are copied nor, as the launcher goes on, its pages. Without /proc the copy
// is whole. Processes that execute something borrow the memory and copy nothing.
func leaveOut() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range bytes.Lines(maps) { // "7f00-7f80 rw-p …"
		addresses, rest, _ := bytes.Cut(line, []byte(" "))
		if !bytes.HasPrefix(rest, []byte("rw-p")) || bytes.HasSuffix(rest, []byte("[stack]\n")) {
			continue
		}
		first, last, _ := bytes.Cut(addresses, []byte("-"))
		from, err := strconv.ParseUint(string(first), 16, 64)
		to, err2 := strconv.ParseUint(string(last), 16, 64)
		if err == nil && err2 == nil {
			_, _, _ = syscall.RawSyscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTFORK)
		}
	}
}
