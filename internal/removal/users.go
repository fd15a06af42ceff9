// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// account is a user with a home directory.
type account struct {
	name string
	uid  uint32
	gid  uint32
	home string
}

// accountsIn parses the text of passwd(5).
func accountsIn(passwd string) []account {
	var accounts []account
	for line := range strings.Lines(passwd) {
		fields := strings.Split(line, ":")
		if len(fields) < 7 {
			continue
		}
		uid, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(fields[3], 10, 32)
		if err != nil {
			continue
		}
		accounts = append(accounts, account{
			name: fields[0], uid: uint32(uid), gid: uint32(gid), home: fields[5],
		})
	}
	return accounts
}

// accountsOfHomes has an account for each home in a directory: users of a network, and of systemd-homed, are
// in no file. With deep it looks into directories of root, too (/home/example.com/ann).
func accountsOfHomes(dir string, deep bool) []account {
	var accounts []account
	entries, _ := os.ReadDir(dir) // none, without the directory
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // it may be a link to another disk
		isName := !strings.ContainsAny(e.Name(), ":\n")
		if err != nil || !info.IsDir() || !isName {
			continue
		}
		owner := info.Sys().(*syscall.Stat_t)
		switch {
		case owner.Uid != 0:
			accounts = append(accounts, account{name: e.Name(), uid: owner.Uid, gid: owner.Gid, home: path})
		case deep:
			accounts = append(accounts, accountsOfHomes(path, false)...)
		}
	}
	return accounts
}

// ownsHome reports whether the home is a directory that belongs to the user.
func (a account) ownsHome() bool {
	info, err := os.Stat(a.home)
	return err == nil && info.IsDir() && info.Sys().(*syscall.Stat_t).Uid == a.uid
}

// addUsers searches the files of each user whose home belongs to them.
func (s *search) addUsers(accounts []account) error {
	var errs []error
	seen := map[uint32]bool{}
	for _, a := range accounts {
		if seen[a.uid] || !a.ownsHome() {
			continue
		}
		seen[a.uid] = true
		if err := s.addUser(a); err != nil {
			errs = append(errs, fmt.Errorf("files of %s: %w", a.name, err))
		}
	}
	return errors.Join(errs...)
}

// searchWithin bounds the search of one user's files.
const searchWithin = 10 * time.Second

// addUser has a process of the user search its files.
func (s *search) addUser(a account) error {
	ctx, cancel := context.WithTimeout(context.Background(), searchWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "removal", "--own")
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second // the user may hold its stdout open
	cmd.Env = []string{"HOME=" + a.home, "PATH=/usr/local/bin:/usr/bin:/bin", "USER=" + a.name}
	asUser := ""
	if a.uid != uint32(os.Getuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
		asUser = "sudo -H -u " + a.name + " "
	}
	out, err := cmd.Output()
	if err == nil {
		return nil
	}
	failed, isStatus := errors.AsType[*exec.ExitError](err)
	if !isStatus {
		return err
	}
	if len(failed.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	if failed.ExitCode() != cli.ExitFailure {
		return err
	}
	s.uses = append(s.uses, usesOf(string(out), asUser)...)
	return nil
}

// usesOf parses the report of a user's process. It takes the uses, but not the remedies: root must not run a
// command that a user wrote. Each remedy begins with asUser.
func usesOf(report, asUser string) []Use {
	remedy := "" // a use contains the next step
	switch {
	case strings.Contains(report, remedyIndent+unwrapAll):
		remedy = asUser + unwrapAll
	case strings.Contains(report, remedyIndent):
		remedy = asUser + "mcpscope removal"
	}
	var uses []Use
	for line := range strings.Lines(report) {
		if !strings.HasPrefix(line, " ") {
			uses = append(uses, Use{Text: strings.TrimRight(line, "\n"), Remedy: remedy})
		}
	}
	return uses
}
