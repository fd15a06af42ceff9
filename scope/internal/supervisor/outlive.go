// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"

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
		Patterns: s.config.Detach, Name: s.config.Name, ID: s.group.Ident(), Client: s.config.Where, Main: s.main, Members: s.group.Members(),
	}
	if len(server.Find()) == 0 { // who has nobody to let out is not frozen
		return
	}
	if s.backend == protocol.Tree {
		s.notLetOut = "it takes a control group"
		return
	}
	facts := map[int]report.Killed{}
	out, err := server.LetOut(func(pid int) { facts[pid] = s.describe(pid) })
	if err != nil {
		s.notLetOut = protocol.OneLine(err)
	}
	s.out = out
	for _, pid := range out.PIDs {
		s.detached = append(s.detached, facts[pid])
	}
}

// adopted describes the members whose parent has ended, so that they are ours, as a daemon's does.
func (s *supervisor) adopted() (all []report.Killed) {
	pids, _ := s.group.Members().Members() // a part is better than nothing
	for _, pid := range pids {
		if st, err := proc.ReadStat(pid); err == nil && pid != s.main && st.PPID == os.Getpid() && len(all) < report.InspectMost {
			all = append(all, s.describe(pid))
		}
	}
	return all
}
