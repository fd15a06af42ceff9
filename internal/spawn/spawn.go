// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

// Group is a directory of a process's group.
type Group = raw.Group

// Cmd describes the process.
type Cmd struct {
	Path string
	Argv []string // Argv[0] is what the process sees as its name
	Env  []string
	// Group is where the process is born: by CLONE_INTO_CGROUP (Linux 5.7) or,
	// where clone3 is refused, by joining before the exec. nil: where the caller is.
	Group Group
	// Detach starts the process by way of another one that exits at once, so that
	// it is in nobody's tree but that of the caller's reaper.
	Detach bool
	// NoFile, if not nil, is set as its RLIMIT_NOFILE.
	NoFile *unix.Rlimit
	// Mask, if not nil, is the set of signals that are blocked in it: signal n is bit n-1. Otherwise it
	// has the calling thread's. A Go program keeps a signal blocked only if it has no
	// default action that ends it.
	Mask *uint64
	// Keep are descriptors that stay open across the exec in spite of
	// close-on-exec.
	Keep []int
}

// Step names what the new process was doing when it failed.
type Step uint32

const (
	stepNone Step = iota
	stepPid       // no failure: the detached process's pid
	stepFork
	stepJoin
	stepProcessGroup
	stepLimits
	stepKeep
	stepMask
	StepExec
)

var stepNames = map[Step]string{
	stepFork: "fork", stepJoin: "join cgroup", stepProcessGroup: "set process group",
	stepLimits: "set resource limits", stepKeep: "pass descriptor", stepMask: "block signals", StepExec: "execute",
}

// StartError is a failure in the new process before it ran.
type StartError struct {
	Step  Step
	Path  string
	Errno syscall.Errno
}

func (e *StartError) Error() string {
	return fmt.Sprintf("%s %q: %v", stepNames[e.Step], e.Path, e.Errno)
}

func (e *StartError) Unwrap() error { return e.Errno }

// Start starts the process and returns when it runs Path, or with the reason why it
// does not. The caller has to wait for pid, unless Detach made it someone else's
// child.
func (c *Cmd) Start() (pid int, err error) {
	a, err := c.prepare()
	if err != nil {
		return 0, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("create pipe: %w", err)
	}
	defer unix.Close(pipe[0])
	a.pipe = pipe[1]
	if c.Group != nil {
		if a.procs, err = c.Group.OpenProcs(); err != nil {
			_ = unix.Close(pipe[1])
			return 0, err
		}
		defer unix.Close(a.procs)
	}
	syscall.ForkLock.Lock()
	child, errno := fork(a)
	syscall.ForkLock.Unlock()
	_ = unix.Close(pipe[1])
	runtime.KeepAlive(a)
	if errno != 0 {
		return 0, fmt.Errorf("fork: %w", errno)
	}
	return c.outcome(child, pipe[0])
}

// outcome reads what the child says: nothing at all when its exec closed the pipe.
func (c *Cmd) outcome(child, pipe int) (int, error) {
	pid := child
	for {
		m, ok, err := receive(pipe)
		switch {
		case err == nil && !ok && !c.Detach:
			return pid, nil
		case err == nil && !ok:
			raw.Reap(child) // the one in between, which exits at once
			return pid, nil
		case err == nil && m.step == stepPid:
			pid = int(m.value)
			continue
		case err == nil:
			err = &StartError{Step: m.step, Path: c.Path, Errno: syscall.Errno(m.value)}
		default:
			_ = unix.Kill(child, unix.SIGKILL) // it may run, and nobody else would wait for it; not reaped, it is the one
			err = fmt.Errorf("hear from the new process: %w", err)
		}
		raw.Reap(child)
		return 0, err
	}
}

func (c *Cmd) prepare() (*args, error) {
	a := &args{detach: c.Detach, group: -1, procs: -1, nofile: c.NoFile, mask: c.Mask, keep: c.Keep}
	var err error
	if a.path, err = syscall.BytePtrFromString(c.Path); err != nil {
		return nil, fmt.Errorf("execute %q: %w", c.Path, err)
	}
	if a.argv, err = syscall.SlicePtrFromStrings(c.Argv); err != nil {
		return nil, fmt.Errorf("argument of %q: %w", c.Path, err)
	}
	if a.env, err = syscall.SlicePtrFromStrings(c.Env); err != nil {
		return nil, fmt.Errorf("environment of %q: %w", c.Path, err)
	}
	if c.Group != nil {
		a.group = c.Group.FD()
	}
	return a, nil
}
