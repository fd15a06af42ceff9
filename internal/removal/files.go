// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

const unwrapAll = "mcpscope unwrap"

// addOwn searches the files of the calling user.
func (s *search) addOwn() error {
	found, err := clientconfig.NewSearch().Everywhere()
	if err != nil {
		return err
	}
	for _, unread := range found.Unread() {
		s.addUnread(unread)
	}
	for _, file := range found.Files {
		s.addConfiguration(file)
	}
	dir := settings.UserDir(os.Getenv)
	if dir != "" {
		dir = filepath.Join(dir, "systemd", "user")
		s.addUnits(dir, "")
		s.addEnabled(dir)
	}
	return errors.Join(found.Backups...) // they could name more files
}

// addUnread adds the file of a client that may start the runner.
func (s *search) addUnread(unread clientconfig.Unread) {
	if unread.Trace == "" {
		return
	}
	file := unread.File
	use := "a file that " + unread.Trace + ", and cannot be read: " + file.Err.Error()
	if repair := file.Repair(); repair != "" {
		use += ": " + repair
	}
	s.add(file.Where(), use, "") // unwrap cannot help yet
}

// addConfiguration adds the file of a client that starts the runner.
func (s *search) addConfiguration(file *clientconfig.File) {
	var names []string
	for _, server := range file.Servers {
		if server.IsWrapped() && s.isRunner(server.Argv[0]) {
			names = append(names, server.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	servers := cli.Counted(len(names), "wrapped server")
	use := fmt.Sprintf("%s of %s: %s", servers, file.ClientTitle("a file"), strings.Join(names, ", "))
	s.add(file.Where(), use, unwrapAll)
}

// unitDirectories are directories of units that systemd.unit(5) names, outside of users' homes. /lib can
// be a link to /usr/lib, or a directory.
var unitDirectories = []string{
	"/etc/systemd/system", "/etc/systemd/user", "/run/systemd/system", "/run/systemd/user",
	"/usr/local/lib/systemd/system", "/usr/local/lib/systemd/user",
	"/usr/lib/systemd/system", "/usr/lib/systemd/user", "/lib/systemd/system",
}

// addUnits finds units and drop-ins. The units that a package has go with it. Each remedy begins with sudo,
// which is "sudo " or "".
func (s *search) addUnits(dir, sudo string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is sound
	dropIns, _ := filepath.Glob(filepath.Join(dir, "*.d", "*.conf"))
	for _, file := range slices.Concat(files, dropIns) {
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil { // systemd cannot read it either
			continue
		}
		s.addUnit(file, string(text), sudo)
	}
}

func (s *search) addUnit(file, text, sudo string) {
	if !s.isStartedBy(text) {
		return
	}
	if units.IsDropIn(file, text) {
		unit := strings.TrimSuffix(filepath.Base(filepath.Dir(file)), ".d")
		// Without --now the gateway runs on with this mcpscope.
		remedy := sudo + "mcpscope units --unit " + unit + " --remove --now"
		s.add(file, "a drop-in that starts the service under mcpscope", remedy)
		return
	}
	switch {
	case strings.Contains(text, units.Written):
		s.add(file, "a unit that mcpscope units has installed", sudo+removeUnits)
	case !slices.Contains(ownUnits, filepath.Base(file)):
		s.add(file, "a unit that starts mcpscope", sudo+"editor "+file)
	}
}

const removeUnits = "mcpscope units --remove --now"

// addEnabled finds the units of a package that a user has enabled. Their manager would run them on: a removal
// by root disables those of the system alone.
func (s *search) addEnabled(dir string) {
	for _, link := range units.EnabledLinks(dir) {
		unit, err := filepath.EvalSymlinks(link)
		if err != nil || strings.HasPrefix(unit, dir+"/") { // its file does not exist, or is listed itself
			continue
		}
		service := strings.TrimSuffix(unit, filepath.Ext(unit)) + ".service" // also of a timer
		text, _ := os.ReadFile(service)                                      // without it nothing starts
		if s.isStartedBy(string(text)) {
			s.add(link, "an enabled unit of mcpscope", removeUnits)
		}
	}
}

// isStartedBy reports whether a unit starts the runner.
func (s *search) isStartedBy(text string) bool {
	commands := execLine.FindAllStringSubmatch(text, -1)
	return slices.ContainsFunc(commands, func(match []string) bool { return s.startsRunner(match[1]) })
}

// ownUnits are those that a package or make install has installed: they are removed with mcpscope.
var ownUnits = []string{"mcpscope-metrics.service", "mcpscope-sweep.service"}

// execLine is a line of a unit that executes a command. systemd ignores a failure if the prefix has a dash.
var execLine = regexp.MustCompile(`(?m)^[ \t]*Exec[A-Za-z]*[ \t]*=[ \t]*[@:+!|]*([^\s@:+!|-].*)`)

// startsRunner reports whether a command, or a word of it that can be one of a shell, is the runner with a
// subcommand.
func (s *search) startsRunner(command string) bool {
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\"';&|()", r) })
	for i, word := range words {
		isCommand := i == 0 || i+1 < len(words) && slices.Contains(runnerCommands, words[i+1])
		if isCommand && s.isRunner(word) {
			return true
		}
	}
	return false
}

// runnerCommands are the subcommands of the runner in scripts.
var runnerCommands = []string{"run", "gateway", "detach"}

// isStartedBy reports whether a command is the runner. A name without a slash may be the runner.
func (s *search) isRunner(command string) bool {
	if !strings.Contains(command, "/") {
		return command == programs.Runner
	}
	return isSameFile(command, s.runner)
}

// isSameFile reports whether two paths lead to one file.
func isSameFile(path, other string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	otherInfo, err := os.Stat(other)
	return err == nil && os.SameFile(info, otherInfo)
}
