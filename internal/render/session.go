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
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Session is an agent with all its servers, and the sums of their figures.
type Session struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	UID     int           `json:"uid"`
	Backend names.Backend `json:"backend"`
	State   fleet.State   `json:"state"` // running or frozen
	Group   string        `json:"group"`
	Agent   Process       `json:"agent,omitzero"`
	Servers int           `json:"servers"`
	Age     float64       `json:"age_seconds"`
	// Origin is that of the agent.
	protocol.Origin
	Figures
}

// MeasureSessions leaves out sessions that have ended since they were listed. It counts those of the servers
// that are in each.
func MeasureSessions(sessions []*fleet.Session, servers []Server) []Session {
	var measured []Session
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

func measureSession(s *fleet.Session) (Session, error) {
	used, err := s.Usage()
	if err != nil {
		return Session{}, err
	}
	v := Session{
		ID: s.ID, Name: s.Name, UID: s.UID, Backend: s.Backend, State: fleet.Running, Group: s.Group,
		Age: s.Age().Seconds(), Origin: s.Origin, Figures: figuresOf(used),
	}
	if s.Frozen {
		v.State = fleet.Frozen
	}
	agent, _ := s.Agent() // none, if it has just ended
	if len(agent) > 0 {
		v.Agent = Process{PID: agent[0].PID, Name: agent[0].Name}
	}
	return v, nil
}

// row is the line of a session above those of its servers.
func (s *Session) row() Row {
	return Row{
		IsSession: true,
		Share:     -1,
		Server: Server{
			Identity: Identity{
				ID: s.ID, Name: s.Name + ": " + cli.Counted(s.Servers, "server"), UID: s.UID,
				Backend: s.Backend, State: s.State, Group: s.Group, Client: s.Agent,
				Origin: s.Origin,
			},
			Age:     s.Age,
			Figures: s.Figures,
		},
	}
}

// Grouped puts the servers of each session below a line with their sums and those of their agent, where the
// first of them is. Sessions without a server that is shown follow.
func Grouped(rows []Row, sessions []Session) []Row {
	if len(sessions) == 0 {
		return rows
	}
	var grouped []Row
	isShown := map[string]bool{}
	for i := range rows {
		id := rows[i].InSession
		session := slices.IndexFunc(sessions, func(s Session) bool { return s.ID == id })
		switch {
		case session < 0:
			grouped = append(grouped, rows[i])
		case !isShown[id]:
			isShown[id] = true
			grouped = append(grouped, sessions[session].row())
			grouped = append(grouped, rowsIn(id, rows)...)
		}
	}
	for i := range sessions {
		if !isShown[sessions[i].ID] {
			grouped = append(grouped, sessions[i].row())
		}
	}
	return grouped
}

func rowsIn(session string, rows []Row) (inside []Row) {
	for i := range rows {
		if rows[i].InSession == session {
			row := rows[i]
			row.isBelow = true
			inside = append(inside, row)
		}
	}
	return inside
}

// SessionInspection is a session in full. Fields are only ever added.
type SessionInspection struct {
	Session
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
	b.line("session", "%s (%s)", i.Name, i.ID)
	b.line("state", "%s", i.State)
	b.line("age", "%s", HumanSeconds(i.Age))
	b.line("backend", "%s", i.Backend)
	b.line("group", "%s", i.Group)
	b.line("agent", "%s", i.Agent.Text())
	b.optional("project", i.Project)
	b.line("processes", "%d", i.Processes)
	b.line("CPU", "%s", HumanSeconds(i.CPU))
	b.line("memory", "%s", MemoryText(Server{Figures: i.Figures}))
	for _, file := range slices.Sorted(maps.Keys(i.Limits)) {
		b.line(file, "%s", i.Limits[file])
	}
	_ = b.out.Flush() // cli.Output keeps the error
	writeTree(out, i.Tree)
	fmt.Fprintln(out)
	WriteServers(out, i.Inside, nil, false)
}
