// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leftover

import (
	"cmp"
	"os"
	"strconv"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/show"
)

// leakAge is how long a server whose client has just exited may take to end by itself.
const LeakAge = 10 * time.Second

// sweptView is an orphan or a leak in JSON: sizes in bytes, times in seconds.
type Swept struct {
	Version   int           `json:"version"`
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	ID        string        `json:"id,omitempty"`
	Group     string        `json:"group,omitempty"`
	Stuck     string        `json:"stuck,omitempty"`
	File      string        `json:"file,omitempty"`
	PID       int           `json:"pid,omitempty"`
	UID       *int          `json:"uid,omitempty"`
	Parent    *show.Process `json:"parent,omitempty"`
	Program   string        `json:"program,omitempty"` // its arguments may be secrets
	Age       float64       `json:"age_seconds,omitempty"`
	Memory    *uint64       `json:"memory_bytes,omitempty"`
	Processes int           `json:"processes,omitempty"`
	Stopped   *bool         `json:"stopped,omitempty"`
}

func ViewLeak(l *Leak, stopped *bool) Swept {
	v := Swept{
		Version: show.JsonVersion, Kind: "leak", Name: l.Server.Name, File: l.Server.File, PID: l.PID, UID: &l.UID,
		Parent: &show.Process{PID: l.Parent}, Program: clientconfig.WithoutArguments(l.Argv), Age: l.Age.Seconds(), Processes: 1 + len(l.Below), Stopped: stopped,
	}
	v.Parent.Name, _ = proc.Comm(l.Parent) // "", if it may not be read
	var f show.Figures
	f.AddMembers(append([]int{l.PID}, l.Below...))
	v.Memory = f.Memory
	return v
}

func WriteLeaks(io cli.Stdio, all []*Leak) {
	if len(all) == 0 {
		cli.None(io.Out, "no leaks")
		return
	}
	columns := []show.Column{
		{Head: "PID"}, {Head: "NAME", Least: 10, Most: 32}, {Head: "AGE"}, {Head: "PROCS"}, {Head: "MEMORY"}, {Head: "PARENT", Least: 8, Clip: show.FitName},
		{Head: "COMMAND", Least: 10, Clip: show.FitEnd}, {Head: "FILE", Least: 12, Clip: show.FitEnd},
	}
	var lines [][]string
	for _, l := range all {
		v := ViewLeak(l, nil)
		lines = append(lines, []string{
			strconv.Itoa(v.PID), v.Name, show.HumanSeconds(v.Age), strconv.Itoa(v.Processes), "~" + show.HumanMemory(v.Memory), show.ClientText(*v.Parent), v.Program, v.File,
		})
	}
	show.WriteLines(io.Out, columns, lines, cli.WidthOf(io.Out), "COMMAND", "PARENT", "PROCS", "AGE")
}

// findLeaks finds those of a user, or of everyone. Each has to be closed.
func FindLeaks(uid int, olderThan time.Duration) ([]*Leak, error) {
	return Search{UID: uid, OlderThan: olderThan, Inside: insideServers(uid), Known: knownServers()}.Find()
}

func CloseLeaks(all []*Leak) {
	for _, l := range all {
		l.Close()
	}
}

// insideServers lists the servers at the first call. If they cannot be listed, every process may belong to one.
func insideServers(uid int) func(pid int) bool {
	inside, unknown := map[int]bool(nil), false
	return func(pid int) bool {
		if inside == nil {
			inside = map[int]bool{os.Getpid(): true}
			servers, err := fleet.List(uid)
			unknown = err != nil
			for _, s := range servers {
				pids, _ := s.Processes() // none, if it has ended
				for _, pid := range append(pids, s.Launcher, s.Supervisor) {
					inside[pid] = true
				}
			}
			selection.Close(servers)
		}
		return unknown || inside[pid]
	}
}

// knownServers reads the configurations at the first call.
func knownServers() func(argv []string) *Known {
	var rules *gw.Rules
	return func(argv []string) *Known {
		if rules == nil {
			rules = &gw.Rules{}
			all, _ := clientconfig.Everywhere() // none, without a directory to look in
			for _, c := range all {
				for _, s := range c.Servers {
					if own := s.Own(); len(own) > 0 && c.Err == nil {
						rules.Configured = append(rules.Configured, gw.Configured{Name: s.Label(), File: c.Where(), Argv: own})
					}
				}
			}
		}
		if found := rules.Server(argv); found != nil {
			return &Known{Name: cmp.Or(found.Name, name.Derive(argv)), File: found.File}
		}
		return nil
	}
}

// countLeaks is for doctor and metrics; 0 if they cannot be found.
func CountLeaks(uid int) int {
	found, _ := FindLeaks(uid, LeakAge) // none
	defer CloseLeaks(found)
	return len(found)
}
