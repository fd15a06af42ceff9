// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"slices"
	"time"

	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/scope/internal/detach"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/scope/internal/report"
)

// beforeAsked sees who would outlive the server, and lets out whom the user has named. It runs beside the loop, which looks
// at what it has found when the ladder has ended.
func (s *supervisor) beforeAsked() {
	if s.config.Report >= 0 {
		s.daemons = s.adopted()
	}
	server := detach.Server{
		Patterns: s.config.Detach, Name: s.config.Name, ID: s.group.Ident(), Outside: s.config.Outside, Main: s.main, Members: s.group.Members(),
	}
	deadline := time.Now().Add(protocol.LetOutWithin)
	found, err := server.Find(deadline)
	if err != nil {
		s.notLetOut = err.Error()
	}
	if len(found) == 0 { // who has nobody to let out is not frozen
		return
	}
	if s.backend == protocol.Tree {
		s.notLetOut = "it takes a control group"
		return
	}
	if s.out, err = server.LetOut(deadline); err != nil {
		s.notLetOut = protocol.OneLine(err)
	}
	for _, m := range s.out.All[:min(len(s.out.All), report.InspectMost)] {
		s.detached = append(s.detached, report.Killed{PID: m.PID, Name: m.Name, Command: m.Command})
	}
}

// adopted describes the members whose parent has ended, so that they are ours, as a daemon's does.
func (s *supervisor) adopted() []report.Killed {
	pids, _ := s.group.Members().Members() // a part is better than nothing
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		st, err := proc.ReadStat(pid)
		return err != nil || pid == s.main || st.PPID != os.Getpid()
	})
	all, _ := s.described(pids, report.InspectMost)
	return all
}
