// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package removal finds what stops working without mcpscope: wrapped files and units, of all users as root.
//
// Root never opens the file of a user: a process of that user does.
package removal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// finding collects the files that start this mcpscope.
type finding struct {
	runner   string
	lines    []string // FILE: WHAT
	remedies []string // commands
	breaks   bool     // one of the files stops working
}

const unwrapAll = "mcpscope unwrap"

// Report prints the files that start this mcpscope: as root those of all users, otherwise or with own those
// of the calling user. The status is 1 if one of them stops working without it.
func Report(own bool, io cli.Stdio) int {
	runner, err := cli.FindRunner()
	if err != nil {
		return io.Cannot("find mcpscope", err)
	}
	f := &finding{runner: runner}
	if os.Getuid() == 0 && !own {
		f.addUnits("/etc/systemd/system", "sudo ")
		f.addUnits("/etc/systemd/user", "sudo ")
		err = f.addUsers()
	} else {
		err = f.addOwn()
	}
	for _, line := range f.lines {
		fmt.Fprintln(io.Out, cli.OneLine(line))
	}
	for _, remedy := range slices.Compact(f.remedies) {
		fmt.Fprintf(io.Out, "  first: %s\n", cli.OneLine(remedy))
	}
	switch {
	case err != nil:
		return io.Cannot("search all configurations and units", err)
	case f.breaks:
		return cli.ExitFailure
	}
	return cli.ExitOK
}

func (f *finding) add(file, use, remedy string, harmless bool) {
	f.lines, f.remedies = append(f.lines, file+": "+use), append(f.remedies, remedy)
	f.breaks = f.breaks || !harmless
}

// addOwn looks into the files of the calling user.
func (f *finding) addOwn() error {
	all, err := clientconfig.Everywhere()
	if err != nil {
		return err
	}
	for _, c := range all { // what cannot be read has not been wrapped, and has no servers
		var names []string
		for _, s := range c.Servers {
			if s.State == wrapping.Wrapped && f.isStartedBy(s.Argv[0]) {
				names = append(names, s.Name)
			}
		}
		if len(names) > 0 {
			what := fmt.Sprintf("%s of %s: %s", cli.Counted(len(names), "wrapped server"),
				c.ClientTitle("a file"), strings.Join(names, ", "))
			f.add(c.Where(), what, unwrapAll, false)
		}
	}
	if dir := settings.UserDir(os.Getenv); dir != "" {
		f.addUnits(filepath.Join(dir, "systemd", "user"), "")
	}
	return nil
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

// execLine is a line of a unit that executes a command.
var execLine = regexp.MustCompile(`(?m)^[ \t]*Exec[A-Za-z]*[ \t]*=[ \t]*([-@:+!|]*)[ \t]*"?([^\s"]+)`)

// mostUnit is more than a unit file is long.
const mostUnit = 256 << 10

// addUnits finds units and drop-ins. The units that mcpscope itself installs go with it.
func (f *finding) addUnits(dir, sudo string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is sound
	inner, _ := filepath.Glob(filepath.Join(dir, "*.d", "*.conf"))
	for _, file := range append(files, inner...) {
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > mostUnit {
			continue
		}
		text, _ := os.ReadFile(file) // what can't be read starts nothing
		starts, harmless := false, true
		for _, m := range execLine.FindAllSubmatch(text, -1) {
			if f.isStartedBy(string(m[2])) {
				starts = true
				harmless = harmless && strings.Contains(string(m[1]), "-") // systemd ignores its failure
			}
		}
		switch name := filepath.Base(file); {
		case !starts:
		case name == "mcpscope.conf":
			what := "a drop-in that starts the service by mcpscope"
			if harmless {
				what = "a drop-in that sweeps after the service ends; does nothing without mcpscope"
			}
			unit := strings.TrimSuffix(filepath.Base(filepath.Dir(file)), ".d")
			f.add(file, what, sudo+"mcpscope units --unit "+unit+" --remove", harmless)
		case !strings.Contains(string(text), units.Written):
			f.add(file, "a unit that starts mcpscope", sudo+"editor "+file, false)
		}
	}
}

// lookWithin is how long the look into one user's files may take.
const lookWithin = 10 * time.Second

// addUsers asks a process of each user whose home belongs to them.
func (f *finding) addUsers() (err error) {
	passwd, err := os.Open("/etc/passwd")
	if err != nil {
		return err
	}
	defer passwd.Close()
	seen := map[uint32]bool{}
	for lines := bufio.NewScanner(passwd); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 7 {
			continue
		}
		uid, errU := strconv.ParseUint(fields[2], 10, 32)
		gid, errG := strconv.ParseUint(fields[3], 10, 32)
		home, errH := os.Lstat(fields[5])
		if errors.Join(errU, errG, errH) != nil || seen[uint32(uid)] || !home.IsDir() ||
			home.Sys().(*syscall.Stat_t).Uid != uint32(uid) {
			continue
		}
		seen[uint32(uid)] = true
		as := syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if e := f.addUser(fields[0], fields[5], as); e != nil {
		}
	}
	return err
}

// addUser takes the lines of a user's process, but not its remedies: root must not run what a user has
// written.
func (f *finding) addUser(name, home string, as syscall.Credential) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "removal", "--own")
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second // the user may hold its stdout open
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/local/bin:/usr/bin:/bin", "USER=" + name}
	if as.Uid != uint32(os.Getuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &as}
	}
	out, err := cmd.Output()
	broken, is := errors.AsType[*exec.ExitError](err)
	if err != nil && !(is && broken.ExitCode() == cli.ExitFailure && len(broken.Stderr) == 0) {
		return err
	}
	remedy, user := "mcpscope removal", ""
	if as.Uid != 0 {
		user = "sudo -H -u " + name + " "
	}
	for line := range strings.Lines(string(out)) {
		if text := strings.TrimRight(line, "\n"); !strings.HasPrefix(text, " ") {
			f.lines, f.breaks = append(f.lines, text), f.breaks || err != nil
		} else if strings.Contains(text, unwrapAll) {
			remedy = unwrapAll
		}
	}
	if len(out) > 0 {
		f.remedies = append(f.remedies, user+remedy)
	}
	return nil
}
