// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

func (s *supervisor) subject() protocol.Subject {
	return protocol.Subject{ID: s.group.Ident(), Name: s.config.Name, Client: s.config.Client, Backend: s.backend}
}

// logStart says that the server runs. Notes so far are about the start.
func (s *supervisor) logStart() {
	report.TellStart(s.subject(), s.stderr)
	report.TellNotes(s.subject(), s.notes)
	s.notesTold = len(s.notes)
}

// connectStderr makes our descriptor 2, which the main process will have, the journal's.
func (s *supervisor) connectStderr() {
	s.stderr = protocol.StderrInherit
	if s.config.Stderr != protocol.StderrJournal {
		return
	}
	fd, err := systemd.JournalStream(protocol.LogIdentifier(s.config.Name, s.group.Ident()), systemd.Info)
	if err == nil {
		err = unix.Dup3(fd, 2, 0)
		_ = unix.Close(fd) // descriptor 2 is the one
	}
	if err != nil {
		s.Note(protocol.StderrKept + err.Error())
		return
	}
	s.stderr = protocol.StderrJournal
}

// sendStop tells the launcher that the main process has stopped. On the ladder that may be our
// own doing, where members are frozen by SIGSTOP.
func (s *supervisor) sendStop(sig unix.Signal) {
	if s.config.Pgid != 0 && s.lifecycle.Phase < lifecycle.Stopping {
		_ = s.control.Send(protocol.Message{Type: protocol.SayStopped, Signal: int(sig)}) // a launcher that is gone needs no telling
	}
}
