// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Running is the last phase in which nothing stops the server. The guard compares Page.Phase with it and gives the other
// phases no meaning: those below it come before, those above it stop the server.
const Running = 1

// Page is the memory that launcher, guard and later brains share. Times are those of CLOCK_MONOTONIC in nanoseconds.
// Descriptors have the same number in all of these processes, and -1 stands for none.
type Page struct {
	// The launcher writes these before Fork.
	Stdin, Stdout int32    // epoll sets, readable after an event that the launcher should notice
	Client        int32    // pidfd, the same
	Launcher      int32    // pidfd
	Events        int32    // cgroup.events of the launcher's cgroup
	Program       int32    // O_PATH descriptor of the program that a later brain executes
	Leaf          int32    // directory of the cgroup for guards and later brains; none in a tree
	Parent        int32    // directory above those of SetDirectories
	Keep          [8]int32 // other descriptors for a later brain

	// The brain writes these.
	Phase uint32
	Cause uint32
	Until int64 // end of the phase
	Due   int64 // by then nothing should be left; 0 for no such time. Guard.Look announces a change

	// The guard writes these, and sends a byte.
	Payload    int32  // directory of the group, in the guard and in later brains; the lock on it is the guard's too
	Reign      uint32 // number of brains before; a brain that finds another number than at its beginning has been replaced
	GuardPID   int32
	MainPID    int32
	Exited     bool   // and Status is there
	Status     uint32 // as of wait4(2)
	Stops      uint32 // how often a signal has stopped the main process
	StopSignal uint32
	Requests   uint64 // signals that other processes have sent to the guard: signal n is bit n-1
	FailedStep Step
	Errno      uint32

	config      uint64 // its place in the file, and its size
	memory      int32
	asked       uint32 // counts the guard's questions whether the brain reacts
	answered    uint32 // is asked as soon as the brain reacts
	directories [1024]byte
}

// Step names the failure, in the guard or in the main process before its exec.
type Step uint32

// The steps. A failed exec is status 126 or 127, by Errno; the others are 125.
const (
	StepNone Step = iota
	StepFork
	StepJoin
	StepProcessGroup
	StepLimits
	StepExec
)

var stepNames = [...]string{"", "fork", "join cgroup", "set process group", "set resource limits", "execute"}

func (s Step) String() string { return stepNames[s] }

const pageSize = 4096

// NewPage makes a page whose descriptors are all none.
func NewPage() (*Page, error) {
	fd, err := unix.MemfdCreate(MemoryName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create memory file: %w", err)
	}
	var p *Page
	if err = unix.Ftruncate(fd, pageSize); err == nil {
		p, err = OpenPage(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("size memory file: %w", err)
	}
	p.memory, p.Payload = int32(fd), -1
	for i := range p.descriptors() {
		p.descriptors()[i] = -1
	}
	return p, nil
}

// OpenPage maps the page of a memory file, in a later brain.
func OpenPage(fd int) (*Page, error) {
	at, err := unix.MmapPtr(fd, 0, nil, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map memory file: %w", err)
	}
	return (*Page)(at), nil
}

// descriptors are those that guard and later brains inherit.
func (p *Page) descriptors() []int32 {
	return unsafe.Slice(&p.Stdin, (unsafe.Offsetof(p.Keep)+unsafe.Sizeof(p.Keep))/unsafe.Sizeof(p.Stdin))
}

// Memory is the descriptor of the page's file.
func (p *Page) Memory() int { return int(p.memory) }

// SetConfig writes what a later brain has to know, behind the page. It may be called again, while a server runs.
func (p *Page) SetConfig(config []byte) error {
	at, size := p.configPlace()
	if at += size; at == 0 {
		at = pageSize
	}
	if n, err := unix.Pwrite(p.Memory(), config, at); err != nil || n < len(config) {
		return fmt.Errorf("write memory file: %w", errors.Join(err, unix.ENOSPC))
	}
	p.setConfigPlace(at, int64(len(config)))
	return nil
}

// Config returns the text of the last SetConfig.
func (p *Page) Config() ([]byte, error) {
	at, size := p.configPlace()
	config := make([]byte, size)
	if n, err := unix.Pread(p.Memory(), config, at); err != nil || n < len(config) {
		return nil, fmt.Errorf("read memory file: %w", errors.Join(err, unix.EIO))
	}
	return config, nil
}

func (p *Page) configPlace() (at, size int64) { return int64(p.config >> 32), int64(uint32(p.config)) }

// setConfigPlace is one store: the writer may be killed at any moment.
func (p *Page) setConfigPlace(at, size int64) { p.config = uint64(at)<<32 | uint64(size) }

// SetDirectories names what the guard removes if no brain can: paths below Parent, in this order. It is called before the
// first of them is made.
func (p *Page) SetDirectories(paths ...string) error {
	text := strings.Join(paths, "\x00") + "\x00\x00"
	if len(text) > len(p.directories) {
		return fmt.Errorf("remember directories: %w", unix.ENAMETOOLONG)
	}
	clear(p.directories[copy(p.directories[:], text):])
	return nil
}

var _ [pageSize - unsafe.Sizeof(Page{})]byte // a page is enough
