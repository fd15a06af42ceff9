// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

const asAgent = "an agent that runs below mcpscope"

// addGateways finds gateways that run below this mcpscope, however they were started: by a script, for
// example.
func (s *search) addGateways(users group.Users) {
	for _, g := range gw.List(users) {
		for _, pid := range livingOf(&g) {
			if s.isRunBy(g.Watcher, pid) {
				s.addGateway(g.Name, pid)
			}
		}
	}
}

// livingOf returns a gateway, or the daemons that live on after it: its watcher waits for these.
func livingOf(g *gw.Running) []int {
	if !g.HasEnded() {
		return []int{g.PID}
	}
	var daemons []int
	for _, starter := range g.Notices.Starters {
		if starter.IsDaemon && group.Alive(starter.Process) {
			daemons = append(daemons, starter.Process.PID)
		}
	}
	return daemons
}

func (s *search) addGateway(name string, pid int) {
	process := processText(name, pid)
	terminal := terminalOf(pid)
	if terminal != "" {
		s.add(process+" on "+terminal, asAgent, exitStep(name, pid))
		return
	}
	place, _ := proc.ReadCgroup(pid) // "" if it has ended
	unit, step := unitStep(place, os.Getuid())
	if step == "" {
		step = exitStep(name, pid)
	}
	if !hasUnit(s.uses, unit) {
		where := cmp.Or(unit, place)
		s.add(process+" in "+where, "a gateway that runs below mcpscope", step)
	}
}

// addAgents finds agents that mcpscope run has started in a terminal. A server has a pipe there: it runs on
// without mcpscope, and the file of its client is a use of its own.
func (s *search) addAgents(users group.Users) {
	servers, _ := fleet.List(users) // as far as they can be listed: a user can make the own ones unreadable
	for _, server := range servers {
		isOfGateway := server.Recipe != 0
		if server.Launcher != 0 && !isOfGateway {
			s.addAgent(server)
		}
		server.Close()
	}
}

func (s *search) addAgent(server *fleet.Listed) {
	members, _ := server.Tree() // none, if it has ended
	for _, m := range members {
		terminal := terminalOf(m.PID)
		if terminal == "" {
			continue
		}
		if s.isRunBy(server.Launcher, m.PID) {
			process := processText(server.Name, m.PID)
			s.add(process+" on "+terminal, asAgent, exitStep(server.Name, m.PID))
		}
		return
	}
}

func processText(name string, pid int) string { return name + "[" + strconv.Itoa(pid) + "]" }

// exitStep returns the next step for an agent that no unit starts. Another user may have chosen the name.
func exitStep(name string, pid int) string {
	return "exit " + processText(cli.Word(name), pid) +
		", and remove an alias or a script that starts it with mcpscope"
}

// terminalOf is the terminal that a process has as its stdin, or "".
func terminalOf(pid int) string {
	stat, err := proc.ReadStat(pid)
	if err != nil || stat.Terminal == 0 {
		return ""
	}
	link := fleet.Stdio(pid)["stdin"]
	if strings.HasPrefix(link, "/dev/pts/") || strings.HasPrefix(link, "/dev/tty") {
		return link
	}
	return ""
}

// unitStep returns the unit of a cgroup, or "", and the command that shows it to uid. There is no command for
// a scope, such as a login session: it starts nothing.
func unitStep(path string, uid int) (unit, step string) {
	manager, isOfUser := systemd.ManagerUser(path)
	unit, _, _ = systemd.UnitOf(path, manager) // none, outside of any
	if !strings.HasSuffix(unit, ".service") {
		return unit, ""
	}
	sudo := ""
	if uid == 0 {
		sudo = "sudo "
	}
	show := " cat " + cli.Word(unit)
	switch {
	case !isOfUser:
		return unit, sudo + "systemctl" + show
	case manager == uid:
		return unit, "systemctl --user" + show
	}
	name := strconv.Itoa(manager)
	account, err := user.LookupId(name)
	if err == nil {
		name = account.Username
	}
	return unit, sudo + "systemctl --user --machine=" + cli.Word(name) + "@.host" + show
}

// hasUnit reports whether a file of the unit was found.
func hasUnit(uses []Use, unit string) bool {
	if unit == "" {
		return false
	}
	return slices.ContainsFunc(uses, func(use Use) bool {
		return strings.Contains(use.Text, "/"+unit+".d/") || strings.Contains(use.Text, "/"+unit+":")
	})
}

// isRunBy reports whether a process of mcpscope executes the runner, also one that an upgrade has replaced.
// front is the agent or gateway that it was started for.
func (s *search) isRunBy(pid, front int) bool {
	link := "/proc/" + strconv.Itoa(pid) + "/exe"
	path, err := os.Readlink(link)
	if errors.Is(err, fs.ErrPermission) { // it refuses to be traced, so only root sees its program
		argv := proc.Arguments(pid, protocol.CommandMost)
		return len(argv) > 0 && s.wouldRun(argv[0], proc.EnvironmentOf(front))
	}
	if err == nil && strings.TrimSuffix(path, " (deleted)") == s.runner {
		return true
	}
	return isSameFile(link, s.runner)
}

// wouldRun reports whether a command is the runner, or may be, where that environment has PATH.
func (s *search) wouldRun(command string, env []string) bool {
	if strings.Contains(command, "/") {
		return isSameFile(command, s.runner)
	}
	for _, variable := range env {
		path, isPath := strings.CutPrefix(variable, "PATH=")
		if !isPath {
			continue
		}
		file, err := programs.LookupIn(path, command)
		if err == nil {
			return isSameFile(file, s.runner)
		}
	}
	return s.isRunner(command)
}
