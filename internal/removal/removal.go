// SPDX-License-Identifier: Apache-2.0

// Package removal finds what stops working without mcpscope: wrapped files, units, and agents and gateways
// that run, of all users as root.
//
// Root never opens the file of a user: a process of that user does.
package removal

import (
	"errors"
	"os"
	"os/user"
	"slices"
	"syscall"

	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Use is a file, a gateway or an agent that stops working without this mcpscope.
type Use struct {
	Text   string // FILE: USE
	Remedy string // a command that comes before the removal of mcpscope, or ""
}

// Report lists the uses that were found.
type Report struct{ Uses []Use }

// remedyIndent begins the line of a remedy. No other line of a report begins with a blank.
const remedyIndent = "  first: "

// Lines are the text of a report: a line for each use, and then one for each remedy.
func (r Report) Lines() []string {
	var lines []string
	var remedies []string
	for _, use := range r.Uses {
		lines = append(lines, use.Text)
		if use.Remedy != "" && !slices.Contains(remedies, use.Remedy) {
			remedies = append(remedies, use.Remedy)
		}
	}
	for _, remedy := range remedies {
		lines = append(lines, remedyIndent+remedy)
	}
	return lines
}

// Find finds the uses of a runner: as root those of all users, otherwise or with onlyOwn those of the calling
// user. The report has those that were found before an error.
func Find(runner string, onlyOwn bool) (Report, error) {
	s := search{runner: runner}
	var err error
	switch {
	case onlyOwn: // root lists what runs for all users
		err = s.addOwn()
	case os.Getuid() == 0:
		err = s.addEverything()
	default:
		err = s.addOwn()
		s.addRunning(group.CallingUser())
	}
	return Report{Uses: s.uses}, err
}

// search collects the uses of a runner.
type search struct {
	runner string
	uses   []Use
}

func (s *search) add(place, use, remedy string) {
	s.uses = append(s.uses, Use{Text: place + ": " + use, Remedy: remedy})
}

// addEverything searches the files and processes of all users.
func (s *search) addEverything() error {
	for _, dir := range unitDirectories {
		s.addUnits(dir, "sudo ")
	}
	var errs []error
	if !isHomeOfRoot(settings.Home(os.Getenv)) { // in a container it can be another one than in passwd(5)
		errs = append(errs, s.addOwn())
	}
	passwd, err := os.ReadFile("/etc/passwd")
	errs = append(errs, err)
	accounts := slices.Concat(accountsIn(string(passwd)), accountsOfHomes("/home", true))
	errs = append(errs, s.addUsers(accounts))
	s.addRunning(group.Everyone()) // after the files, which explain services
	return errors.Join(errs...)
}

// addRunning finds what runs below the runner, and that no file explains.
func (s *search) addRunning(users group.Users) {
	s.addGateways(users)
	s.addAgents(users)
}

// isHomeOfRoot reports whether a directory is the home of root in passwd(5), or belongs to another user.
func isHomeOfRoot(home string) bool {
	root, err := user.LookupId("0")
	if err == nil && root.HomeDir == home {
		return true
	}
	info, err := os.Stat(home)
	return err != nil || info.Sys().(*syscall.Stat_t).Uid != 0
}
