// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// QuietAfter is when a gateway without a server is worth a word.
const QuietAfter = 30 * time.Second

// Quiet tells whether a gateway should have had a server by now.
func (s Status) Quiet() bool { return s.Servers == 0 && time.Since(s.Started) >= QuietAfter }

// awaitServers writes one line to the journal if there is none: the gateway's stderr is its own.
func (w *watcher) awaitServers() {
	w.board.mu.Lock()
	s := w.board.status
	w.board.mu.Unlock()
	time.AfterFunc(time.Until(s.Started.Add(QuietAfter)), func() {
		w.board.mu.Lock()
		defer w.board.mu.Unlock()
		if s := &w.board.status; s.Quiet() && !s.Told && !linux.Ended(w.Gateway) {
			s.Told = true
			s.tell()
		}
	})
}

func (s *Status) tell() {
	note := fmt.Sprintf("no MCP server was found below it in %.0f s; %s", QuietAfter.Seconds(), s.leftInShort())
	_ = systemd.SendJournal(systemd.JournalEntry(systemd.Notice, // or nobody hears of it: ls and doctor say it as well
		systemd.JournalField{Name: "MESSAGE", Value: fmt.Sprintf("gateway %s[%d]: %s", s.Name, s.PID, note)},
		systemd.JournalField{Name: "MESSAGE_ID", Value: protocol.MessageIDs()[protocol.EventNote]},
		systemd.JournalField{Name: "SYSLOG_IDENTIFIER", Value: "mcpscope"},
		systemd.JournalField{Name: protocol.FieldEvent, Value: string(protocol.EventNote)},
		systemd.JournalField{Name: protocol.FieldID, Value: "gateway"}, // which has no id of a group
		systemd.JournalField{Name: protocol.FieldName, Value: s.Name},
		systemd.JournalField{Name: protocol.FieldClient, Value: s.Name},
		systemd.JournalField{Name: protocol.FieldClientPID, Value: strconv.Itoa(s.PID)},
		systemd.JournalField{Name: protocol.FieldNote, Value: note},
	))
}

// leftInShort names a few programs that were left.
func (s *Status) leftInShort() string {
	if len(s.Left) == 0 {
		return "no program with pipes as stdin and stdout was started"
	}
	var all []string
	for _, l := range s.Left[:min(len(s.Left), 3)] {
		all = append(all, fmt.Sprintf("%s (%s)", l.Program, l.Reason))
	}
	return "left alone: " + strings.Join(all, "; ") + "; mcpscope doctor has all"
}
