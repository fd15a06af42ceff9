// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// followSession has the figures of all servers read when the session is out of memory. A manager removes the
// group of a server that the kernel has killed, and the figures that say so with it. The kernel reports the
// kill before the processes have ended.
func (w *watcher) followSession() {
	if w.config.Session == "" {
		return
	}
	events, err := launcher.OpenMemoryEvents(w.config.Session)
	if err != nil {
		return // it has no limit of memory
	}
	go func() {
		var text [512]byte
		for {
			_, err := unix.Pread(events, text[:], 0) // an event is one after the last read
			if err != nil {
				return // the session was removed
			}
			w.servers.measureAll()
			polls := []unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}
			_, _ = unix.Poll(polls, -1) // it may be interrupted
		}
	}()
}

// measureAll has the figures of all servers read soon: any of them may have been killed.
func (s *servers) measureAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.byNumber {
		launcher.MeasureSoon(t)
	}
}

// thawSession thaws the session at the end of a gateway: its servers can react to their stop, whatever has
// frozen them all.
func (w *watcher) thawSession() {
	if w.config.Session != "" {
		_ = launcher.ThawSession(w.config.Session) // they are killed all the same
	}
}

// leaveSession removes the session of a gateway whose servers have ended.
func (w *watcher) leaveSession() {
	if w.config.Session == "" {
		return
	}
	if err := launcher.LeaveSession(w.config.Session); err != nil {
		text := "its session is left, for a sweep: " + err.Error()
		w.reporter.sendJournal(systemd.Warning, journal.Note, text, "")
	}
}
