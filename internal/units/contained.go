// SPDX-License-Identifier: Apache-2.0

package units

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
)

// Containment describes a service that runs below mcpscope.
type Containment struct {
	containment.State
	Reason string // why it is not contained, or why that is not known
	Remedy string
}

// decidedWithin is for a machine that is very busy: a watcher needs some milliseconds.
const (
	decidedWithin = 2 * time.Minute
	lookEvery     = 20 * time.Millisecond
)

// awaitContainment waits until it is decided whether a group can be made for a server of a service that was
// just started.
func awaitContainment(manager systemd.Kind, unit string) (Containment, error) {
	began := time.Now()
	for {
		c, err := lookAtContainment(manager, unit)
		isDecided := c.State != containment.Undecided
		if err != nil || isDecided || time.Since(began) > decidedWithin {
			return c, err
		}
		time.Sleep(lookEvery)
	}
}

// Gateways returns the services with our drop-in in a directory of units.
func Gateways(dir string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.service.d", "*.conf")) // the pattern is sound
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && IsDropIn(file, string(text)) {
			names = append(names, strings.TrimSuffix(filepath.Base(filepath.Dir(file)), ".d"))
		}
	}
	return slices.Compact(names) // files of one directory follow each other
}

// RunningGateways lists the services that run `mcpscope gateway`, with a drop-in of mcpscope or without one.
func RunningGateways(manager systemd.Kind) (names []string, err error) {
	const properties = "--property=Id,ExecStart"
	text, err := Systemctl(manager, "show", "--type=service", "--state=running", properties, "*")
	if err != nil {
		return nil, err
	}
	return gatewaysIn(text), nil
}

// gatewaysIn parses the properties of several services, with an empty line between two of them.
func gatewaysIn(text string) (names []string) {
	for properties := range strings.SplitSeq(text, "\n\n") {
		name := ""
		isGateway := false
		for line := range strings.Lines(properties) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch key {
			case "Id":
				name = value
			case "ExecStart":
				_, argv, _ := strings.Cut(value, " argv[]=")
				words := strings.Fields(argv)
				isGateway = runsGateway(words)
			}
		}
		if isGateway && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// lookAtContainment finds out whether a group can be made for a server of a service that runs.
func lookAtContainment(manager systemd.Kind, unit string) (Containment, error) {
	s, err := readService(manager, unit)
	if err != nil {
		return Containment{}, err
	}
	return containmentOf(manager, s)
}

func containmentOf(manager systemd.Kind, s systemd.Service) (Containment, error) {
	status := systemctlCommand(manager) + " status " + s.Name
	if s.MainPID == 0 {
		if changesState(s) {
			reason := "it is " + s.ActiveState
			return Containment{State: containment.Undecided, Reason: reason, Remedy: status}, nil
		}
		return Containment{}, notRunning(s)
	}
	c := Containment{State: containment.FindState(s.MainPID, s.Group)}
	switch c.State {
	case containment.Undecided:
		c.Reason = "mcpscope has not found out yet"
		c.Remedy = status
	case containment.Uncontained, containment.Weaker:
		c.Reason, c.Remedy = whyUncontained(service{Service: s, Manager: manager})
	}
	return c, nil
}

// changesState reports whether a service without a main process is about to be in another state.
func changesState(s systemd.Service) bool {
	switch s.ActiveState {
	case "activating", "deactivating", "reloading":
		return true
	}
	return s.SubState == "running" // systemd has yet to see the end of the process
}

func notRunning(s systemd.Service) error {
	if s.Result == "signal" || s.Result == "core-dump" {
		if unix.Signal(s.ExitStatus) == unix.SIGSYS {
			const text = "%s was killed: its SystemCallFilter= forbids a system call of mcpscope"
			return fmt.Errorf(text, s.Name)
		}
	}
	const notExecuted = 203 // EXIT_EXEC of systemd.exec(5)
	if s.Result == "exit-code" && s.ExitStatus == notExecuted {
		const text = "%s does not run: systemd could not execute mcpscope there, as its user sees files"
		return fmt.Errorf(text, s.Name)
	}
	return fmt.Errorf("%s does not run: it is %s, its result is %s", s.Name, s.ActiveState, s.Result)
}

// whyUncontained returns a reason in plain words, and a remedy.
func whyUncontained(s service) (reason, remedy string) {
	if !s.runsMcpscope() {
		later := s.laterCommand()
		if later != "" {
			return later + " sets ExecStart= and sorts after " + dropInName, "rename " + later
		}
		again := "mcpscope units --unit " + s.Name + " --install --now"
		return "its manager starts it without mcpscope", again
	}
	edit := systemctlCommand(s.Manager) + " edit " + s.Name
	restart := systemctlCommand(s.Manager) + " restart " + s.Name
	if s.startedBefore() {
		return "it was started before the drop-in was installed", restart
	}
	missing := s.forbiddenCalls()
	if len(missing) > 0 {
		reason = "its SystemCallFilter= forbids system calls that mcpscope needs"
		remedy = "add SystemCallFilter=" + strings.Join(missing, " ") + " (" + edit + "); then: " + restart
		return reason, remedy
	}
	if s.ReadOnly {
		reason = "its control groups are read-only (ProtectControlGroups=yes)"
		return reason, "add ProtectControlGroups=no (" + edit + "); then: " + restart
	}
	if s.runsAsUser() && !s.Delegated {
		remedy = "add Delegate=yes (" + edit + "); then: " + restart
		return "user " + s.User + " may make no cgroup here", remedy
	}
	readLog := journalCommand(s.Manager) + " -u " + s.Name
	reason = noteInJournal(s)
	if reason != "" {
		return reason, readLog
	}
	if containment.HasFilter(s.MainPID) {
		reason = "its watcher and guard were killed, and it can start no program before it is restarted"
		return reason, restart
	}
	return "the log of the gateway has the reason", readLog
}

// laterCommand returns the drop-in that replaces the command of ours, or "".
func (s service) laterCommand() string {
	s, err := loadFiles(s)
	if err != nil || !slices.ContainsFunc(s.DropIns, isDropInName) {
		return ""
	}
	return s.written().SetLater["ExecStart"]
}

// runsMcpscope reports whether the command that the manager has is `mcpscope gateway`.
func (s service) runsMcpscope() bool {
	return slices.ContainsFunc(s.Commands, runsGateway)
}

// runsGateway reports whether a command is `mcpscope gateway`.
func runsGateway(argv []string) bool {
	return len(argv) > 1 && path.Base(argv[0]) == programs.Runner && argv[1] == "gateway"
}

// startedBefore reports whether the main process is older than the drop-in.
func (s service) startedBefore() bool {
	for _, file := range s.DropIns {
		if !isDropInName(file) {
			continue
		}
		info, err := os.Stat(file)
		if err == nil && info.ModTime().After(s.Started) {
			return true
		}
	}
	return false
}

// noteInJournal returns what the gateway has written since its last start, or "": its stderr may be
// elsewhere.
func noteInJournal(s service) string {
	args := []string{"--quiet", "--no-pager", "--output=cat"}
	if s.Manager == systemd.User {
		args = append(args, "--user")
	}
	args = append(args, "_SYSTEMD_INVOCATION_ID="+s.Invocation)
	_ = exec.Command("journalctl", "--sync").Run()         // only root may; without it the note may be late
	out, _ := exec.Command("journalctl", args...).Output() // "" without a journal, or the right to read it
	note := ""
	for line := range strings.Lines(string(out)) {
		note = cmp.Or(cli.WhyNotContained(line), note)
	}
	return note
}
