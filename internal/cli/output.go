// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Output keeps the error of the first failed write: callers of fmt.Fprint ignore it.
type Output struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

// Checked returns s with an Output, and a function that returns the final exit status: a success becomes a
// failure if not all output was written.
func (s Stdio) Checked() (Stdio, func(status int) int) {
	out := &Output{to: s.Out}
	checked := Stdio{Out: out, Err: s.Err}
	return checked, func(status int) int {
		out.mu.Lock()
		defer out.mu.Unlock()
		switch {
		case status != ExitOK || out.err == nil:
			return status
		case errors.Is(out.err, unix.EPIPE): // the reader closed the pipe early
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

// File returns the file behind out, or nil.
func File(out io.Writer) *os.File {
	if o, ok := out.(*Output); ok {
		out = o.to
	}
	f, _ := out.(*os.File)
	return f
}
