// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// end is the end of the pipe that the handler writes to.
//
//lint:ignore U1000 the handler reads it
var end int32

// handlers returns the addresses of the handler and of the code that returns from it.
func handlers() (handler, restorer uintptr)

func writeTo(fd int) { end = int32(fd) }

// sigaction is the kernel's struct of that name, on both processors.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// of <asm-generic/signal.h> and <asm/signal.h>
const (
	saOnStack  = 0x08000000
	saRestart  = 0x10000000
	saRestorer = 0x04000000
)

// catch gives a signal the handler. All others wait while it runs.
func catch(sig unix.Signal) {
	act := sigaction{flags: saOnStack | saRestart, mask: ^uint64(0)}
	if act.handler, act.restorer = handlers(); act.restorer != 0 {
		act.flags |= saRestorer
	}
	setAction(sig, &act, nil)
}

// unblock has a thread that does not block the signal: the runtime's own have the mask that this process was
// started with.
func unblock(sig unix.Signal) {
	if caught.unblock == nil {
		c := make(chan unix.Signal)
		caught.unblock = c
		go func() {
			runtime.LockOSThread()
			for sig := range c {
				set := unix.Sigset_t{Val: [16]uint64{1 << (sig - 1)}}
				_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil) // it can't fail
			}
		}()
	}
	caught.unblock <- sig
}
