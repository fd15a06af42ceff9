// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Output is what a command prints to. It keeps the error of the first write that failed, because
// most callers of fmt.Fprint can do nothing about one.
type Output struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

// Checked returns s with an Output, and the function that turns a command's status into the one to
// exit with: a success is a failure if not all of the output could be written.
func (s Stdio) Checked() (Stdio, func(status int) int) {
	out := &Output{to: s.Out}
	checked := Stdio{Out: out, Err: s.Err}
	return checked, func(status int) int {
		out.mu.Lock()
		defer out.mu.Unlock()
		switch {
		case status != ExitOK || out.err == nil:
			return status
		case errors.Is(out.err, unix.EPIPE): // the reader wanted no more
			return ExitFailure
		}
		return s.Cannot("print", out.err)
	}
}

func (o *Output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// File returns the file that out prints to, or nil if it is none.
func File(out io.Writer) *os.File {
	if o, ok := out.(*Output); ok {
		out = o.to
	}
	f, _ := out.(*os.File)
	return f
}
