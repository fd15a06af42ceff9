//go:build linux

package cli

import (
	"io"
	"os"
	"sync"
)

// Output is where a command prints. It remembers the first write that failed, for most of what
// prints has nothing to do about it.
type Output struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

// Checked returns s with an Output, and the function that a command ends with: a status of success
// becomes one of failure if not all could be written.
func (s Stdio) Checked() (Stdio, func(status int) int) {
	out := &Output{to: s.Out}
	checked := Stdio{Out: out, Err: s.Err}
	return checked, func(status int) int {
		out.mu.Lock()
		defer out.mu.Unlock()
		if status == ExitOK && out.err != nil {
			return s.Cannot("print", out.err)
		}
		return status
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

// File is the file that is printed to; nil if it is none.
func File(out io.Writer) *os.File {
	if o, ok := out.(*Output); ok {
		out = o.to
	}
	f, _ := out.(*os.File)
	return f
}
