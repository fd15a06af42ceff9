// SPDX-License-Identifier: Apache-2.0

package units

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// Containment describes a service that runs below mcpscope.
type Containment struct {
	containment.State
	Reason string // why it is not contained, or why that is not known
	Remedy string
}

// findContainment finds out whether a group can be made for a server of a service that runs.
func findContainment(s systemd.Service) (Containment, error) {
	status := systemctl() + " status " + cli.Word(s.Name)
	if s.Process.PID == 0 {
		if isChanging(s) {
			reason := "it is " + s.ActiveState
			return Containment{State: containment.Undecided, Reason: reason, Remedy: status}, nil
		}
		return Containment{}, notRunning(s)
	}
	c := Containment{State: containment.FindState(s.Process.PID, groupOf(s))}
	switch c.State {
	case containment.Undecided:
		c.Reason = "mcpscope has not found out yet"
		c.Remedy = status
	case containment.Uncontained, containment.Weaker:
		c.Reason, c.Remedy = whyUncontained(s)
	}
	return c, nil
}

// groupOf is the control group that a service's processes are in. PAM moves those of a unit with PAMName=
// into one of a session (pam_systemd(8)), and only sd-pam stays.
func groupOf(s systemd.Service) string {
	group := s.Process.Group
	path, err := proc.ReadCgroup(s.Process.PID)
	isInside := path == group || strings.HasPrefix(path, group+"/")
	if err != nil || isInside {
		return group
	}
	return path
}

// isChanging reports whether a service without a main process is about to be in another state.
func isChanging(s systemd.Service) bool {
	switch s.ActiveState {
	case "activating", "deactivating", "reloading":
		return true
	}
	return s.SubState == "running" // systemd has yet to see the end of the process
}

// notRunning is the error of a service that has ended, with the reason as far as systemd, or a line of
// mcpscope in the journal, has one.
func notRunning(s systemd.Service) error {
	const notExecuted = 203 // EXIT_EXEC of systemd.exec(5)
	result := s.Process.Result
	status := s.Process.ExitStatus
	isKilled := result == "signal" || result == "core-dump"
	switch {
	case isKilled && unix.Signal(status) == unix.SIGSYS:
		return fmt.Errorf("%s was killed: its SystemCallFilter= forbids a system call", s.Name)
	case result == "exit-code" && status == notExecuted:
		program := "its command"
		if runsGateway(s) {
			program = "mcpscope"
		}
		const text = "%s does not run: systemd could not execute %s there, as its user sees files"
		return fmt.Errorf(text, s.Name, program)
	}
	text := fmt.Sprintf("%s does not run: it is %s, its result is %s", s.Name, s.ActiveState, result)
	line := noteInJournal(s, ownLine)
	if line != "" {
		text += "; " + line
	}
	return errors.New(text)
}

// whyUncontained returns a reason in plain words, and a remedy.
func whyUncontained(s systemd.Service) (reason, remedy string) {
	name := cli.Word(s.Name)
	edit := systemctl() + " edit " + name
	restart := systemctl() + " restart " + name
	missing := forbiddenCalls(s)
	switch {
	case !runsGateway(s) && slices.ContainsFunc(s.DropIns, isDropInName):
		reason = "another drop-in sorts after " + dropInName + " and sets ExecStart="
		return reason, "rename it: " + strings.Join(laterDropIns(s), ", ")
	case !runsGateway(s):
		return "its manager starts it without mcpscope", "mcpscope units --unit " + name + " --install --now"
	case startedBefore(s):
		return "it was started before the drop-in was installed", restart
	case len(missing) > 0:
		reason = "its SystemCallFilter= forbids system calls that mcpscope needs"
		remedy = "add SystemCallFilter=" + strings.Join(missing, " ") + " (" + edit + "); then: " + restart
		return reason, remedy
	case s.Settings.ReadOnly:
		reason = "its control groups are read-only (ProtectControlGroups=yes)"
		return reason, "add ProtectControlGroups=no (" + edit + "); then: " + restart
	case runsAsUser(s) && !s.Settings.Delegated:
		reason = "user " + s.Settings.User + " may make no cgroup here"
		return reason, "add Delegate=yes (" + edit + "); then: " + restart
	}
	readLog := journalctl() + " -u " + name
	reason = noteInJournal(s, cli.WhyNotContained)
	if reason != "" {
		return reason, readLog
	}
	if containment.HasFilter(s.Process.PID) {
		reason = "its watcher and guard were killed, and it can start no program before it is restarted"
		return reason, restart
	}
	return "the log of the gateway has the reason", readLog
}

// journalWithin bounds the wait for the journal, which may hang.
const journalWithin = 5 * time.Second

// noteInJournal parses the lines that a service has written since its last start, and returns the last note:
// "" if there is none, as where its stderr is elsewhere.
func noteInJournal(s systemd.Service, parse func(line string) string) (note string) {
	ctx, cancel := context.WithTimeout(context.Background(), journalWithin)
	defer cancel()
	args := []string{"--quiet", "--no-pager", "--output=cat", "_SYSTEMD_INVOCATION_ID=" + s.Invocation}
	if systemd.Own() == systemd.User {
		args = append(args, "--user")
	}
	// Only root may, and otherwise a line may be late.
	_ = exec.CommandContext(ctx, "journalctl", "--sync").Run()
	out, _ := exec.CommandContext(ctx, "journalctl", args...).Output() // "" without the right to read it
	for line := range strings.Lines(string(out)) {
		found := parse(line)
		if found != "" { // the last one counts
			note = found
		}
	}
	return note
}

// ownLine is a line of a log that mcpscope has written, or "".
func ownLine(line string) string {
	if strings.HasPrefix(line, "mcpscope: ") {
		return cli.ErrorText(strings.TrimSpace(line))
	}
	return ""
}
