// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// LastEnd is the message of the last end of a server of that name or id, as the journal has it. It is "" for
// none. Any process of the user can have written it.
func LastEnd(called string) string {
	tool, err := cli.Lookup("journalctl")
	if err != nil || !systemd.JournalExists() {
		return ""
	}
	q := &Query{}
	args := []string{"--quiet", "--output=short-iso", "--no-hostname", "--lines=1"}
	args = append(args, q.events("MCPSCOPE_ID="+called, protocol.EventEnded)...)
	args = append(append(args, "+"), q.events("MCPSCOPE_NAME="+called, protocol.EventEnded)...)
	line, _ := exec.Command(tool, args...).Output() // none, if the journal can't be read
	return strings.TrimSpace(string(line))
}

// Ends counts the ends of servers by their cause, from the boot on. Each Read continues where the last one
// ended.
type Ends struct {
	counts map[protocol.Cause]int
	cursor string
}

// Read returns the counts of all causes. It fails if there is no journal, or none that can be read.
func (e *Ends) Read() (map[protocol.Cause]int, error) {
	tool, err := cli.Lookup("journalctl")
	if err == nil && !systemd.JournalExists() {
		err = systemd.ErrNoJournal
	}
	if err != nil {
		return nil, err
	}
	from := "--boot"
	if e.cursor != "" {
		from = "--after-cursor=" + e.cursor
	}
	args := []string{"--quiet", "--output=json", "--output-fields=MCPSCOPE_CAUSE", from}
	cmd := exec.Command(tool, append(args, (&Query{}).events("", protocol.EventEnded)...)...)
	entries, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	e.count(entries)
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("read the journal: journalctl: %w", err)
	}
	return e.counts, nil
}

// count reads entries as long as there are any. A cause that is not known may be forged.
func (e *Ends) count(entries io.Reader) {
	if e.counts == nil {
		e.counts = map[protocol.Cause]int{}
		for _, cause := range protocol.Causes() {
			e.counts[cause] = 0
		}
	}
	for decoder := json.NewDecoder(entries); ; {
		var entry struct {
			Cursor string `json:"__CURSOR"`
			Cause  any    `json:"MCPSCOPE_CAUSE"` // a text, or anything that a process has written
		}
		err := decoder.Decode(&entry)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, entries) // journalctl would wait for a reader
			return
		}
		e.cursor = entry.Cursor
		text, _ := entry.Cause.(string)
		cause := protocol.Cause(text)
		if _, known := e.counts[cause]; known {
			e.counts[cause]++
		}
	}
}
