// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// A session is an agent with all its servers. It has the fields of a server: its client is the agent, and its
// figures are the sums of all.

// MeasureSessions leaves out sessions that have ended since they were listed. It counts those of the servers
// that are in each.
func MeasureSessions(sessions []*fleet.Session, servers []Server) []Server {
	var measured []Server
	for _, s := range sessions {
		v, err := measureSession(s)
		if err != nil {
			continue
		}
		for i := range servers {
			if servers[i].InSession == s.ID && servers[i].Kept == nil {
				v.Servers++
			}
		}
		measured = append(measured, v)
	}
	return measured
}

func measureSession(s *fleet.Session) (Server, error) {
	used, err := s.Usage()
	if err != nil {
		return Server{}, err
	}
	v := Server{
		Identity: Identity{
			ID: s.ID, Name: s.Name, UID: s.UID, Backend: s.Backend, State: fleet.Running, Group: s.Group,
			Origin: s.Origin,
		},
		Age:     s.Age().Seconds(),
		Figures: figuresOf(used),
	}
	if s.Frozen {
		v.State = fleet.Frozen
	}
	agent, _ := s.Agent() // none, if it has just ended
	if len(agent) > 0 {
		v.Client = Process{PID: agent[0].PID, Name: agent[0].Name}
	}
	return v, nil
}

// rowOfSession is the line of a session above those of its servers.
func rowOfSession(session *Server) Row {
	row := Row{Server: *session, IsSession: true, Share: -1}
	row.Server.Name += ": " + cli.Counted(session.Servers, "server")
	return row
}

// Grouped puts the servers of each session below a line with their sums and those of their agent, where the
// first of them is. Sessions without a server that is shown follow.
func Grouped(rows []Row, sessions []Server) []Row {
	if len(sessions) == 0 {
		return rows
	}
	var grouped []Row
	isShown := map[string]bool{}
	for i := range rows {
		id := rows[i].Server.InSession
		session := slices.IndexFunc(sessions, func(s Server) bool { return s.ID == id })
		switch {
		case session < 0:
			grouped = append(grouped, rows[i])
		case !isShown[id]:
			isShown[id] = true
			grouped = append(grouped, rowOfSession(&sessions[session]))
			grouped = append(grouped, rowsIn(id, rows)...)
		}
	}
	for i := range sessions {
		if !isShown[sessions[i].ID] {
			grouped = append(grouped, rowOfSession(&sessions[i]))
		}
	}
	return grouped
}

func rowsIn(session string, rows []Row) (inside []Row) {
	for i := range rows {
		if rows[i].Server.InSession == session {
			row := rows[i]
			row.isBelow = true
			inside = append(inside, row)
		}
	}
	return inside
}

// SessionInspection is a session in full. Fields are only ever added.
type SessionInspection struct {
	Session Server `json:"session"`
	// Tree are the agent and all else that is of no server.
	Tree []fleet.Member `json:"tree"`
	// Inside are the servers.
	Inside []Server `json:"inside"`
}

// InspectSessions leaves out sessions that have ended since they were listed.
func InspectSessions(sessions []*fleet.Session) (inspections []SessionInspection, err error) {
	for _, s := range sessions {
		found, err := inspectSession(s)
		if proc.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s (%s): %w", s.Name, s.ID, err)
		}
		inspections = append(inspections, found)
	}
	return inspections, nil
}

func inspectSession(s *fleet.Session) (SessionInspection, error) {
	servers, err := s.Servers()
	inside := MeasureAll(servers)
	for _, l := range servers {
		l.Close()
	}
	if err != nil {
		return SessionInspection{}, err
	}
	v, err := measureSession(s)
	if err != nil {
		return SessionInspection{}, err
	}
	for i := range inside {
		if inside[i].Kept == nil {
			v.Servers++
		}
	}
	tree, err := s.Agent()
	return SessionInspection{Session: v, Tree: tree, Inside: inside}, err
}

func (i *SessionInspection) write(out io.Writer) {
	b := block{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	b.line("session", "%s (%s)", i.Session.Name, i.Session.ID)
	b.line("state", "%s", i.Session.State)
	b.line("age", "%s", HumanSeconds(i.Session.Age))
	b.line("backend", "%s", i.Session.Backend)
	b.line("group", "%s", i.Session.Group)
	b.line("agent", "%s", i.Session.Client.Text())
	b.optional("project", i.Session.Project)
	b.line("processes", "%d", i.Session.Processes)
	b.line("CPU", "%s", HumanSeconds(i.Session.CPU))
	b.line("memory", "%s", MemoryText(i.Session))
	for _, file := range slices.Sorted(maps.Keys(i.Session.Limits)) {
		b.line(file, "%s", i.Session.Limits[file])
	}
	_ = b.out.Flush() // cli.Output keeps the error
	writeTree(out, i.Tree)
	fmt.Fprintln(out)
	WriteServers(out, i.Inside, nil, false)
}
