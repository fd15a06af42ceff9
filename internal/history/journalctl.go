// SPDX-License-Identifier: Apache-2.0

//go:build linux

package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// entry is what is read of an entry of the journal. Any process of that uid may have written it.
type entry struct {
	Time    string `json:"__REALTIME_TIMESTAMP"` // in microseconds
	UID     string `json:"_UID"`
	Message text   `json:"MESSAGE"`
	ID      text   `json:"MCPSCOPE_ID"`
	Name    text   `json:"MCPSCOPE_NAME"`
}

// line is the entry for people, without anything that a terminal would act on. Tabs are harmless.
func (e *entry) line() string {
	micros, _ := strconv.ParseInt(e.Time, 10, 64) // journald's own: 1970 if it were none
	var parts []string
	for part := range strings.SplitSeq(strings.ToValidUTF8(string(e.Message), "\ufffd"), "\t") {
		parts = append(parts, cli.OneLine(part))
	}
	return time.UnixMicro(micros).Format(time.DateTime) + "  " + strings.Join(parts, "\t")
}

// text is the value of a field. journalctl prints a string, an array of numbers for bytes that are
// not UTF-8, null for a value that is too long, and an array of these for a repeated field.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var one string
	var numbers []uint16
	var many []text
	switch {
	case json.Unmarshal(b, &one) == nil:
		*t = text(one)
	case json.Unmarshal(b, &numbers) == nil:
		var value []byte
		for _, n := range numbers {
			value = append(value, byte(n))
		}
		*t = text(value)
	case json.Unmarshal(b, &many) == nil && len(many) > 0:
		*t = many[0]
	}
	return nil
}

// entryMost is the longest line of journalctl that is read: the longest line of a stream (48 KiB)
// as an array of numbers. Longer ones are passed over.
const entryMost = 1 << 20

// errEnough ends the reading.
var errEnough = errors.New("enough")

// readJournal runs journalctl, because its library needs cgo, and calls each with every line of
// JSON. journalctl is killed when this process ends, however that ends.
func readJournal(args []string, each func(line []byte) error) error {
	tool, err := protocol.Lookup("journalctl", cli.SearchPath())
	if err != nil || !systemd.JournalExists() {
		return systemd.ErrNoJournal
	}
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends that has started the process
	defer runtime.UnlockOSThread()
	var stderr bytes.Buffer
	cmd := exec.Cmd{
		Path: tool, Args: append([]string{"journalctl", "--quiet", "--no-pager", "--output=json", "--all"}, args...),
		Stderr: &stderr, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM},
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = readLines(out, each)
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
		return &journalctlError{failed.String(), lastLine(stderr.String())}
	}
	return waitErr
}

// journalctlError is a failure of journalctl, with the last line of its stderr.
type journalctlError struct{ state, stderr string }

func (e *journalctlError) Error() string {
	if e.stderr == "" {
		return "journalctl: " + e.state
	}
	return "journalctl: " + e.stderr
}

// lastLine of at most 4 KiB.
func lastLine(text string) string {
	text = strings.TrimSpace(text[:min(len(text), 4096)])
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func readLines(from io.Reader, each func(line []byte) error) error {
	r := bufio.NewReaderSize(from, entryMost)
	for {
		line, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			line = nil
			_, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil // half a line is left if journalctl was killed
		}
		if err != nil {
			return err
		}
		if len(line) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
	}
}

// endWithReader ends this process, as a write would, when the reader of stdout has gone. It is for
// commands that may have nothing to write for a long time.
func endWithReader() {
	if _, err := linux.PollUntil(time.Time{}, unix.PollFd{Fd: 1}); err == nil { // POLLERR is always reported
		_ = cli.EndBySignal(unix.SIGPIPE)
	}
}

// cannotRead reports that the journal could not be read, with a remedy.
func cannotRead(io cli.Stdio, err error) int {
	hint := ""
	switch failed, _ := errors.AsType[*journalctlError](err); {
	case errors.Is(err, systemd.ErrNoJournal):
		hint = "it takes systemd-journald and journalctl; without: mcpscope run --report FILE"
	case failed != nil && strings.Contains(failed.stderr, "insufficient permissions"):
		hint = "keep it on disk, where each user has a journal (sudo mkdir /var/log/journal, sudo journalctl --flush), " +
			"or join the group systemd-journal"
	}
	return io.CannotWithHint("read the journal", err, hint)
}
