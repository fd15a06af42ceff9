// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// EndedServer is a server that has ended, as its event in the journal has it. Any process of its user can
// have written that.
type EndedServer struct {
	ID, Name              string
	UID                   int // of the process that wrote the event, or the owner that an event of root names
	Backend               names.Backend
	ClientPID             int
	ClientName            string
	ClientUnit            string
	Project, Conversation string
	Cause                 causes.Cause
	Started               *time.Time // nil if the event does not have it
	Ended                 time.Time
	CPU                   float64 // seconds
	Peak                  *uint64 // bytes, nil where the kernel has not counted
}

// Causes that no report has.
const (
	Swept      causes.Cause = "swept"       // of an orphan
	NotStarted causes.Cause = "not-started" // of a server that a client asked for, and never had
)

// EndedServers returns the servers that have ended, or were not started, since the boot, the first one first:
// those of a choice of users.
func EndedServers(users group.Users) ([]EndedServer, error) {
	source, err := Open()
	if err != nil {
		return nil, err
	}
	ends := anyOf(eventsAbout(users, journal.Ended, journal.Swept, journal.Failed)...)
	args := append([]string{"--quiet", "--all", "--output=json", "--boot"}, ends...)
	var ended []EndedServer
	err = source.stream(args, func(entries io.Reader) { ended = readEnded(entries) })
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// readEnded leaves out entries that are not of mcpscope.
func readEnded(entries io.Reader) (ended []EndedServer) {
	lines := bufio.NewReader(entries)
	for {
		line, err := lines.ReadBytes('\n')
		if e, ok := parseEnded(line); ok {
			ended = append(ended, e)
		}
		if err != nil {
			return ended
		}
	}
}

// parseEnded returns false for an entry whose fields no mcpscope writes, and for an orphan that has not
// ended.
func parseEnded(line []byte) (EndedServer, bool) {
	var fields map[string]any // a text each, or anything that a process has written
	if err := json.Unmarshal(line, &fields); err != nil {
		return EndedServer{}, false
	}
	text := func(key string) string {
		value, _ := fields[key].(string) // "" for a value that is no text
		return value
	}
	micros, err := strconv.ParseInt(text("__REALTIME_TIMESTAMP"), 10, 64)
	isOfServer := err == nil && text("MCPSCOPE_ID") != ""
	isSwept := text("MCPSCOPE_EVENT") == string(journal.Swept)
	isStuck := isSwept && text("MCPSCOPE_STUCK") != ""
	if !isOfServer || isStuck {
		return EndedServer{}, false
	}
	e := EndedServer{
		ID:           text("MCPSCOPE_ID"),
		Name:         text("MCPSCOPE_NAME"),
		Backend:      names.Backend(text("MCPSCOPE_BACKEND")),
		ClientName:   text("MCPSCOPE_CLIENT"),
		ClientUnit:   text("MCPSCOPE_CLIENT_UNIT"),
		Project:      text("MCPSCOPE_PROJECT"),
		Conversation: text("MCPSCOPE_CONVERSATION"),
		Cause:        causes.Cause(text("MCPSCOPE_CAUSE")),
		Ended:        time.UnixMicro(micros).UTC(),
	}
	e.UID, _ = strconv.Atoi(text("_UID")) // the journal writes it
	owner, err := strconv.Atoi(text("MCPSCOPE_OWNER"))
	if e.UID == 0 && err == nil {
		e.UID = owner
	}
	e.ClientPID, _ = strconv.Atoi(text("MCPSCOPE_CLIENT_PID")) // 0 without a client
	e.CPU, _ = strconv.ParseFloat(text("MCPSCOPE_CPU_SECONDS"), 64)
	peak, err := strconv.ParseUint(text("MCPSCOPE_MEMORY_PEAK_BYTES"), 10, 64)
	if err == nil {
		e.Peak = &peak
	}
	seconds, err := strconv.ParseFloat(text("MCPSCOPE_SECONDS"), 64)
	if err == nil {
		started := e.Ended.Add(-time.Duration(seconds * float64(time.Second)))
		e.Started = &started
	}
	switch text("MCPSCOPE_EVENT") {
	case string(journal.Swept):
		e.Cause = Swept
	case string(journal.Failed):
		e.Cause = NotStarted
	}
	return e, true
}
