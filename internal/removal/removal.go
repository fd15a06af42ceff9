// SPDX-License-Identifier: Apache-2.0

// Package removal finds what stops working without mcpscope: wrapped files and units, of all users as root.
//
// Root never opens the file of a user: a process of that user does.
package removal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// finding collects the files that stop working without this mcpscope.
type finding struct {
	runner   string
	lines    []string // FILE: USE
	remedies []string // commands
}

const (
	unwrapAll = "mcpscope unwrap"
	first     = "  first: " // before each remedy
)

// Report prints the files that start this mcpscope: as root those of all users, otherwise or with own those
// of the calling user. The status is 1 if there are any.
func Report(own bool, to cli.Stdio) int {
	runner, err := cli.FindRunner()
	if err != nil {
		return to.Cannot("find mcpscope", err)
	}
	f := &finding{runner: runner}
	if os.Getuid() == 0 && !own {
		for _, dir := range unitDirectories {
			f.addUnits(dir, "sudo ")
		}
		f.addGateways(group.Everyone, "sudo ")
		if !isHomeOfRoot(settings.Home(os.Getenv)) { // in a container it can be another one than in passwd(5)
			err = f.addOwn()
		}
		passwd, errRead := os.ReadFile("/etc/passwd")
		err = errors.Join(err, errRead, f.addUsers(string(passwd), homesBelow("/home", true)))
	} else {
		err = f.addOwn()
		if !own { // otherwise root lists the gateways of all users
			f.addGateways(os.Getuid(), "")
		}
	}
	for _, line := range f.lines {
		fmt.Fprintln(to.Out, cli.OneLine(line))
	}
	for _, remedy := range slices.Compact(f.remedies) {
		if remedy == "" {
			continue
		}
		fmt.Fprintln(to.Out, first+cli.OneLine(remedy))
	}
	switch {
	case err != nil:
		return to.Cannot("search all configurations and units", err)
	case len(f.lines) > 0:
		return cli.ExitFailure
	}
	return cli.ExitOK
}

func (f *finding) add(file, use, remedy string) {
	f.lines = append(f.lines, file+": "+use)
	f.remedies = append(f.remedies, remedy)
}

// addOwn searches the files of the calling user.
func (f *finding) addOwn() error {
	found, err := clientconfig.Everywhere()
	if err != nil {
		return err
	}
	for _, c := range found.Files {
		if c.Err != nil && c.HasBackup() {
			use := "a file that was wrapped, and cannot be read: " + c.Err.Error()
			if repair := c.Repair(); repair != "" {
				use += ": " + repair
			}
			f.add(c.Where(), use, "") // unwrap cannot help yet
			continue
		}
		var names []string
		for _, s := range c.Servers {
			if s.IsWrapped() && f.isStartedBy(s.Argv[0]) {
				names = append(names, s.Name)
			}
		}
		if len(names) > 0 {
			f.add(c.Where(), fmt.Sprintf("%s of %s: %s", cli.Counted(len(names), "wrapped server"),
				c.ClientTitle("a file"), strings.Join(names, ", ")), unwrapAll)
		}
	}
	if dir := settings.UserDir(os.Getenv); dir != "" {
		f.addUnits(filepath.Join(dir, "systemd", "user"), "")
	}
	return errors.Join(found.Backups...) // they could name more files
}

// unitDirectories are those of systemd.unit(5). /lib can be a link to /usr/lib, or a directory.
var unitDirectories = []string{
	"/etc/systemd/system", "/etc/systemd/user", "/run/systemd/system", "/run/systemd/user",
	"/usr/local/lib/systemd/system", "/usr/local/lib/systemd/user",
	"/usr/lib/systemd/system", "/usr/lib/systemd/user", "/lib/systemd/system",
}

// addGateways finds gateways that run below this mcpscope, however they were started: by a script, for
// example.
func (f *finding) addGateways(uid int, sudo string) {
	for _, g := range gw.List(uid) {
		if !f.isRunBy(g.Watcher) {
			continue
		}
		where, _ := proc.ReadCgroup(g.PID) // "" if it has ended
		place := where
		remedy := ""
		if unit, _, ok := systemd.UnitOf(where, os.Getuid()); ok {
			place = unit
			remedy = sudo + "systemctl cat " + unit
		}
		isListed := func(line string) bool {
			return strings.Contains(line, "/"+place+".d/") || strings.Contains(line, "/"+place+":")
		}
		if !slices.ContainsFunc(f.lines, isListed) {
			running := fmt.Sprintf("%s[%d] in %s", g.Name, g.PID, place)
			f.add(running, "a gateway that runs below mcpscope", remedy)
		}
	}
}

// isRunBy reports whether a process executes the runner, also one that an upgrade has replaced.
func (f *finding) isRunBy(pid int) bool {
	link := "/proc/" + strconv.Itoa(pid) + "/exe"
	path, err := os.Readlink(link)
	if err == nil && strings.TrimSuffix(path, " (deleted)") == f.runner {
		return true
	}
	executes, errA := os.Stat(link)
	runner, errB := os.Stat(f.runner)
	return errA == nil && errB == nil && os.SameFile(executes, runner)
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

// isStartedBy reports whether a command is the runner. A name without a slash may be the runner.
func (f *finding) isStartedBy(command string) bool {
	if !strings.Contains(command, "/") {
		return command == cli.Runner
	}
	a, errA := os.Stat(command)
	b, errB := os.Stat(f.runner)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// execLine is a line of a unit that executes a command. systemd ignores a failure if the prefix has a dash.
var execLine = regexp.MustCompile(`(?m)^[ \t]*Exec[A-Za-z]*[ \t]*=[ \t]*[@:+!|]*([^\s@:+!|-].*)`)

// startsIt reports whether a command, or a word of it that can be one of a shell, is the runner with a
// subcommand.
func (f *finding) startsIt(command string) bool {
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\"';&|()", r) })
	for i, word := range words {
		isCommand := i == 0 || i+1 < len(words) && slices.Contains(runnerCommands, words[i+1])
		if isCommand && f.isStartedBy(word) {
			return true
		}
	}
	return false
}

// runnerCommands are the subcommands of the runner in scripts.
var runnerCommands = []string{"run", "gateway", "detach"}

// addUnits finds units and drop-ins. The units that mcpscope itself installs go with it.
func (f *finding) addUnits(dir, sudo string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is sound
	inner, _ := filepath.Glob(filepath.Join(dir, "*.d", "*.conf"))
	for _, file := range append(files, inner...) {
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, _ := os.ReadFile(file) // what can't be read starts nothing
		commands := execLine.FindAllStringSubmatch(string(text), -1)
		starts := slices.ContainsFunc(commands, func(m []string) bool { return f.startsIt(m[1]) })
		switch {
		case !starts:
		case units.IsDropIn(file, string(text)):
			unit := strings.TrimSuffix(filepath.Base(filepath.Dir(file)), ".d")
			// without --now it runs on with this mcpscope
			remedy := sudo + "mcpscope units --unit " + unit + " --remove --now"
			f.add(file, "a drop-in that starts the service under mcpscope", remedy)
		case strings.Contains(string(text), units.Written), slices.Contains(ownUnits, filepath.Base(file)):
		default:
			f.add(file, "a unit that starts mcpscope", sudo+"editor "+file)
		}
	}
}

// ownUnits are those that a package or make install has installed: they are removed with mcpscope.
var ownUnits = []string{"mcpscope-metrics.service", "mcpscope-sweep.service"}

// searchWithin bounds the search of one user's files.
const searchWithin = 10 * time.Second

// homesBelow has a line as in passwd(5) for each home in a directory: users of a network, and of
// systemd-homed, are in no file. With deep it looks into directories of root, too (/home/example.com/ann).
func homesBelow(dir string, deep bool) (passwd string) {
	entries, _ := os.ReadDir(dir) // none, without the directory
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		info, err := os.Stat(path) // it may be a link to another disk
		if err != nil || !info.IsDir() || strings.ContainsAny(name, ":\n") {
			continue
		}
		of := info.Sys().(*syscall.Stat_t)
		switch {
		case of.Uid != 0:
			passwd += fmt.Sprintf("%s:x:%d:%d::%s:\n", name, of.Uid, of.Gid, path)
		case deep:
			passwd += homesBelow(path, false)
		}
	}
	return passwd
}

// addUsers starts a process of each user whose home belongs to them. Each passwd is as in passwd(5).
func (f *finding) addUsers(passwd ...string) (err error) {
	seen := map[uint64]bool{}
	for line := range strings.Lines(strings.Join(passwd, "\n")) { // the last line of a file may be open
		fields := strings.Split(line, ":")
		if len(fields) < 7 {
			continue
		}
		uid, errU := strconv.ParseUint(fields[2], 10, 32)
		gid, errG := strconv.ParseUint(fields[3], 10, 32)
		home, errH := os.Stat(fields[5])
		if errors.Join(errU, errG, errH) != nil || seen[uid] || !home.IsDir() ||
			uint64(home.Sys().(*syscall.Stat_t).Uid) != uid {
			continue
		}
		seen[uid] = true
		as := syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if e := f.addUser(fields[0], fields[5], as); e != nil {
			err = errors.Join(err, fmt.Errorf("files of %s: %w", fields[0], e))
		}
	}
	return err
}

// addUser takes the lines of a user's process, but not its remedies: root must not run a command that a user
// wrote.
func (f *finding) addUser(name, home string, as syscall.Credential) error {
	ctx, cancel := context.WithTimeout(context.Background(), searchWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "removal", "--own")
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second // the user may hold its stdout open
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/local/bin:/usr/bin:/bin", "USER=" + name}
	remedy := ""
	if as.Uid != uint32(os.Getuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &as}
		remedy = "sudo -H -u " + name + " "
	}
	out, err := cmd.Output()
	found, is := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case is && len(found.Stderr) > 0:
		return fmt.Errorf("%w: %s", err, cli.ErrorText(strings.TrimSpace(string(found.Stderr))))
	case !is || found.ExitCode() != cli.ExitFailure:
		return err
	case strings.Contains(string(out), first+unwrapAll):
		remedy += unwrapAll
	case strings.Contains(string(out), first):
		remedy += "mcpscope removal"
	default: // a line contains what to do
		remedy = ""
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, " ") {
			f.lines = append(f.lines, strings.TrimRight(line, "\n"))
		}
	}
	f.remedies = append(f.remedies, remedy)
	return nil
}
