// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// The errors of places that were tried cross an execve: raw code performs the plan for each place, and main
// goes on with the next one if that fails. They keep their text, and what advice is given by.

// told is such an error.
type told struct {
	text  string
	errno unix.Errno // 0 for none
	kinds []error
}

func (e *told) Error() string { return e.text }

func (e *told) Is(target error) bool { return slices.Contains(e.kinds, target) }

func (e *told) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// kinds are the errors that advice is given by, beside those of the kernel.
var kinds = []error{
	errGuard, systemd.ErrOutside, systemd.ErrNotOurs, systemd.ErrRefused, os.ErrDeadlineExceeded,
	errors.ErrUnsupported, fs.ErrNotExist,
}

// encodeTried encodes the errors of the places among missed that were tried.
func encodeTried(missed []error) (all []protocol.Missed) {
	for _, err := range missed {
		if of := new(placeError); errors.As(err, &of) && of.isTried {
			all = append(all, encodeError(of.err))
		}
	}
	return all
}

func encodeError(err error) protocol.Missed {
	m := protocol.Missed{Text: err.Error()}
	if errno := unix.Errno(0); errors.As(err, &errno) {
		m.Errno = uint64(errno)
	}
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			m.Kinds |= 1 << i
		}
	}
	if limit := new(protocol.LimitError); errors.As(err, &limit) {
		m.IsLimit = true
		m.Limit = *limit
	}
	return m
}

func decodeError(m protocol.Missed) error {
	if m.IsLimit {
		return &m.Limit
	}
	e := &told{text: m.Text, errno: unix.Errno(m.Errno)}
	for i, kind := range kinds {
		if m.Kinds&(1<<i) != 0 {
			e.kinds = append(e.kinds, kind)
		}
	}
	return e
}

// Tried returns the errors of the places that were tried, the last of which is that of a plan that has
// failed. on may be nil.
func Tried(on *page.Page) (all []error, err error) {
	if on == nil {
		return nil, nil
	}
	c, err := protocol.ConfigOn(on)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	for _, m := range c.Missed {
		all = append(all, decodeError(m))
	}
	return append(all, failureOn(on)), nil
}

// CommandOn is the server's command on the page of a plan that has failed. That of this process, given, has
// the label of the attempt that failed: see container.Labelled. Raw code plans no server that gets a label.
func CommandOn(on *page.Page, given []string) ([]string, error) {
	if on == nil || !on.Plan.IsByMain {
		return given, nil
	}
	c, err := protocol.ConfigOn(on)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return c.Argv, nil
}

// failureOn is why raw code could not perform a plan.
func failureOn(on *page.Page) error {
	failed := &on.Plan.Failed
	errno := unix.Errno(failed.Errno)
	switch failed.Step {
	case page.StepGuard:
		return fmt.Errorf("%w: %w", errGuard, errno)
	case page.StepScope:
		return scopeFailure(failed)
	case page.StepLimit:
		at := failed.Limit
		file, value := on.Plan.Limits.Next(&at)
		var err error = errno
		if errno == unix.ENOENT {
			err = fmt.Errorf("this kernel has no %s: %w", file, errno)
		}
		return group.LimitError(cgroup.Limit{File: file, Value: value}, err)
	}
	return fmt.Errorf("%v: %w", failed.Step, errno)
}

// scopeError is the wire form of an error of MakeScope.
type scopeError struct {
	Version int
	protocol.Missed
}

// tellScopeError writes an error of MakeScope to the page. A text that is too long is cut.
func tellScopeError(failed *page.Failure, err error) {
	e := scopeError{Version: protocol.ProtocolVersion, Missed: encodeError(err)}
	const most = len(failed.Text) / 2
	e.Text = e.Text[:min(len(e.Text), most)]
	encoded := protocol.Encode(&e)
	if len(encoded) > len(failed.Text) {
		e.IsLimit = false
		e.Limit = protocol.LimitError{}
		encoded = protocol.Encode(&e)
	}
	failed.Size = uint32(copy(failed.Text[:], encoded))
}

func scopeFailure(failed *page.Failure) error {
	e := scopeError{}
	text := failed.Text[:min(int(failed.Size), len(failed.Text))]
	if err := protocol.Decode(text, &e); err != nil {
		return errors.New("start the scope: the process that asks for it was killed")
	}
	return decodeError(e.Missed)
}
