// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
)

// LastEnd is the message of the last end of a server that a selection of one name means, as the journal has
// it. It is "" for none. Any process of the user can have written it.
func LastEnd(s *selection.Selection) string {
	entries, err := Open()
	if err != nil {
		return ""
	}
	args := []string{"--quiet", "--output=short-iso", "--no-hostname", "--lines=1"}
	args = append(args, entries.eventsOfNamed(s, journal.Ended)...)
	line, _ := entries.output(args) // none, if the journal can't be read
	return strings.TrimSpace(string(line))
}

// Ends counts the ends of servers by their cause, from the boot on. Each Read continues where the last one
// ended.
type Ends struct {
	Users  group.Users
	counts map[causes.Cause]int
	cursor string
}

// Read returns the counts of all causes. It fails if there is no journal, or none that can be read.
func (e *Ends) Read() (map[causes.Cause]int, error) {
	source, err := Open()
	if err != nil {
		return nil, err
	}
	if err := source.stream(e.arguments(), e.count); err != nil {
		return nil, err
	}
	return e.counts, nil
}

// arguments returns the arguments with which journalctl prints the ends since the last Read.
func (e *Ends) arguments() []string {
	from := "--boot"
	if e.cursor != "" {
		from = "--after-cursor=" + e.cursor
	}
	args := []string{"--quiet", "--output=json", "--output-fields=MCPSCOPE_CAUSE", from}
	return append(args, anyOf(eventsAbout(e.Users, journal.Ended)...)...)
}

// count reads entries as long as there are any. A cause that is not known may be forged.
func (e *Ends) count(entries io.Reader) {
	if e.counts == nil {
		e.counts = map[causes.Cause]int{}
		for _, cause := range causes.All() {
			e.counts[cause] = 0
		}
	}
	decoder := json.NewDecoder(entries)
	for {
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
		text, _ := entry.Cause.(string) // "" is no cause
		cause := causes.Cause(text)
		if _, ok := e.counts[cause]; ok {
			e.counts[cause]++
		}
	}
}
