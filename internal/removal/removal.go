// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package removal finds what stops working without mcpscope: wrapped files and units, of all users as root.
//
// Root never opens the file of a user: a process of that user does.
package removal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// use is a file that starts this mcpscope.
type use struct {
	File string `json:"file"`
	What string `json:"what"`
	// Harmless: without mcpscope what it configures works all the same.
	Harmless bool `json:"harmless,omitempty"`
	// Remedy is the command that takes mcpscope out of it.
	Remedy string `json:"remedy,omitempty"`
}

// findUses finds what starts the runner: as root for all users, else or with own for the calling one.
func Find(own bool, runner string) ([]use, error) {
	if os.Getuid() != 0 || own {
		return ownUses(runner)
	}
	all := unitUses("/etc/systemd/system", "sudo ", runner)
	all = append(all, unitUses("/etc/systemd/user", "sudo ", runner)...)
	users, err := homes()
	for _, u := range users {
		theirs, e := u.uses()
		if e != nil {
			err = errors.Join(err, fmt.Errorf("the files of %s: %w", u.name, e))
		}
		for i := range theirs {
			if u.uid == 0 {
				continue
			}
			remedy := unwrapAll
			if theirs[i].Remedy != unwrapAll {
				remedy = "mcpscope removal" // root must not enter what a user's process has said
			}
			theirs[i].Remedy = "sudo -H -u " + u.name + " " + remedy
		}
		all = append(all, theirs...)
	}
	return all, err
}

const unwrapAll = "mcpscope unwrap --all"

// ownUses looks into the files of the calling user.
func ownUses(runner string) ([]use, error) {
	all, err := clientconfig.Everywhere()
	if err != nil {
		return nil, err
	}
	uses := []use{}
	for _, c := range all {
		if c.Err != nil {
			continue // what can't be read has not been wrapped
		}
		var names []string
		for _, s := range c.Servers {
			if s.State == wrapping.Wrapped && startedBy(s.Argv[0], runner) {
				names = append(names, s.Name)
			}
		}
		if len(names) > 0 {
			uses = append(uses, use{File: c.Where(), What: cli.Counted(len(names), "wrapped server") + " of " + c.ClientTitle("a file") + ": " + strings.Join(names, ", "), Remedy: unwrapAll})
		}
	}
	if dir := settings.UserDir(os.Getenv); dir != "" {
		uses = append(uses, unitUses(filepath.Join(dir, "systemd", "user"), "", runner)...)
	}
	return uses, nil
}

// startedBy tells whether a command is the runner. A name without a slash may be.
func startedBy(command, runner string) bool {
	if !strings.Contains(command, "/") {
		return command == cli.Runner
	}
	a, errA := os.Stat(command)
	b, errB := os.Stat(runner)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

var execLine = regexp.MustCompile(`^\s*Exec[A-Za-z]*\s*=\s*([-@:+!|]*)\s*"?([^\s"]+)`)

// unitUses finds units and drop-ins in a directory of units.
// The units that mcpscope itself installs there go with it.
func unitUses(dir, sudo, runner string) []use {
	var uses []use
	files, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is sound
	inner, _ := filepath.Glob(filepath.Join(dir, "*.d", "*.conf"))
	for _, file := range append(files, inner...) {
		starts, harmless := execs(file, runner)
		switch name := filepath.Base(file); {
		case !starts || name == "mcpscope-sweep.service" || name == "mcpscope-metrics.service":
		case name == "mcpscope.conf":
			unit := strings.TrimSuffix(filepath.Base(filepath.Dir(file)), ".d")
			what := "a drop-in that starts the service by mcpscope"
			if harmless {
				what = "a drop-in that sweeps after the service ends; does nothing without mcpscope"
			}
			uses = append(uses, use{File: file, What: what, Harmless: harmless,
				Remedy: sudo + "mcpscope units --unit " + unit + " --remove"})
		default:
			uses = append(uses, use{File: file, What: "a unit that starts mcpscope", Remedy: sudo + "editor " + file})
		}
	}
	return uses
}

// mostUnit is more than a unit file is long.
const mostUnit = 256 << 10

// execs tells whether a unit file executes the runner, and whether it does so only where systemd
// ignores a failure.
func execs(file, runner string) (starts, harmless bool) {
	info, err := os.Lstat(file)
	if err != nil || info.Mode().Type() != 0 || info.Size() > mostUnit {
		return false, false
	}
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, false
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	harmless = true
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if m := execLine.FindStringSubmatch(lines.Text()); m != nil && startedBy(m[2], runner) {
			starts = true
			harmless = harmless && strings.Contains(m[1], "-")
		}
	}
	return starts, starts && harmless
}

// account is a user with a home.
type account struct {
	name     string
	uid, gid uint32
	home     string
}

// homes are the users that can have configurations: their home belongs to them.
func homes() ([]account, error) {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []account
	seen := map[uint32]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 7 {
			continue
		}
		uid, errU := strconv.ParseUint(fields[2], 10, 32)
		gid, errG := strconv.ParseUint(fields[3], 10, 32)
		if errU != nil || errG != nil || seen[uint32(uid)] {
			continue
		}
		info, err := os.Lstat(fields[5])
		if errors.Is(err, fs.ErrNotExist) || err != nil || !info.IsDir() {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != uint32(uid) {
			continue
		}
		seen[uint32(uid)] = true
		all = append(all, account{fields[0], uint32(uid), uint32(gid), fields[5]})
	}
	return all, lines.Err()
}

// lookWithin is how long the look into one user's files may take.
const lookWithin = 10 * time.Second

// uses asks a process of the user's own: root must not follow the links that a user makes.
func (a account) uses() ([]use, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "removal", "--own", "--json")
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second // the user may hold its stdout open
	cmd.Env = []string{"HOME=" + a.home, "PATH=/usr/local/bin:/usr/bin:/bin", "USER=" + a.name}
	if a.uid != uint32(os.Getuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var uses []use
	err = json.Unmarshal(out, &uses)
	return uses, err
}
