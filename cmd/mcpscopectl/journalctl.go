// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/systemd"
	"github.com/mcpscope/mcpscope/scope"
)

// entry is one of the journal: a field may be there several times.
type entry map[string]values

// first is a field's value, "" if it is not there.
func (e entry) first(name string) string {
	if len(e[name]) == 0 {
		return ""
	}
	return e[name][0]
}

// values are what journalctl -o json makes of a field: a string, the bytes of what is no
// text, null for what is too long, or an array of these.
type values []string

func (v *values) UnmarshalJSON(b []byte) error {
	var got any
	if err := json.Unmarshal(b, &got); err != nil {
		return err
	}
	*v = nil
	list, many := got.([]any)
	if one, is := valueOf(got); is {
		*v = values{one}
	} else if many {
		for _, each := range list {
			if one, is := valueOf(each); is {
				*v = append(*v, one)
			}
		}
	}
	return nil
}

func valueOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []any:
		text := make([]byte, 0, len(v))
		for _, each := range v {
			n, is := each.(float64)
			if !is {
				return "", false
			}
			text = append(text, byte(n))
		}
		return string(text), len(v) > 0
	}
	return "", false
}

// entryMost is the longest line of journalctl that is read: a stream's longest (48 KiB), each
// byte as a number. Longer ones are passed over.
const entryMost = 1 << 20

// errEnough ends the reading.
var errEnough = errors.New("enough")

// readJournal runs journalctl, for its library can't be had without cgo, and gives each
// entry to the function, until that returns an error or there are no more. The tool dies
// with us, however we end.
func readJournal(args []string, each func(entry) error) error {
	tool, err := scope.Lookup("journalctl", cli.SearchPath())
	if err != nil || !systemd.JournalExists() {
		return systemd.ErrNoJournal
	}
	runtime.LockOSThread() // with the thread that has started it the tool would die
	defer runtime.UnlockOSThread()
	var said bytes.Buffer
	cmd := exec.Cmd{
		Path: tool, Args: append([]string{"journalctl", "--quiet", "--no-pager", "--output=json"}, args...),
		Stderr: &said, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM},
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = readEntries(out, each)
	_ = out.Close()
	if err != nil {
		_ = cmd.Process.Signal(unix.SIGTERM) // it may wait for more
	}
	waitErr := cmd.Wait()
	var failed *exec.ExitError
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil:
		return err
	case errors.As(waitErr, &failed):
		return &journalctlError{failed.String(), lastLine(said.String())}
	}
	return waitErr
}

// journalctlError is what the tool has said on its way out.
type journalctlError struct{ state, said string }

func (e *journalctlError) Error() string {
	if e.said == "" {
		return "journalctl: " + e.state
	}
	return "journalctl: " + e.said
}

func (e *journalctlError) denied() bool { return strings.Contains(e.said, "insufficient permissions") }

// lastLine of at most 4 KiB.
func lastLine(text string) string {
	text = strings.TrimSpace(text[:min(len(text), 4096)])
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func readEntries(from io.Reader, each func(entry) error) error {
	r := bufio.NewReaderSize(from, entryMost)
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			line = nil
		}
		var e entry
		if len(line) > 0 && json.Unmarshal(line, &e) == nil { // half a line is of a tool that was killed
			if err := each(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// endWithReader ends this process, as a write would, when whoever reads our output has gone.
// It is for commands that may have nothing to write for a long time.
func endWithReader() {
	if _, err := linux.PollUntil(time.Time{}, unix.PollFd{Fd: 1}); err == nil { // POLLERR, which needs no asking
		_ = cli.EndBySignal(unix.SIGPIPE)
	}
}

// cannotRead says that the journal could not be read, and what would help.
func cannotRead(io cli.Stdio, err error) int {
	hint := ""
	switch failed, _ := errors.AsType[*journalctlError](err); {
	case errors.Is(err, systemd.ErrNoJournal):
		hint = "it takes systemd-journald and journalctl; without: mcpscope run --report FILE"
	case failed != nil && failed.denied():
		hint = "keep it on disk, where each user has a journal (sudo mkdir /var/log/journal, sudo journalctl --flush), or join the group systemd-journal"
	}
	return io.CannotWithHint("read the journal", err, hint)
}
