// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// tracked is the reason for a bare server in a file that other people get by git.
const tracked = "tracked by git, for people without mcpscope at this path: to change it, name the file"

// unanswered is the reason for a bare server in a file that other people may get by git.
const unanswered = "in a repository, and git cannot report whether it tracks the file: %s: " +
	"to change it, name the file"

// What git takes is bounded, for all files of a search together: in a directory like /tmp another user can
// have a repository with a FIFO, which git opens. An own repository may be large, and the machine busy.
const (
	ownWithin     = 5 * time.Second
	foreignWithin = 500 * time.Millisecond
	endWithin     = 100 * time.Millisecond // after it was killed
)

// patience is how long git may take in repositories of the calling user, and of others.
type patience struct{ own, foreign context.Context }

func newPatience() (p patience, end func()) {
	own, endOwn := within(ownWithin)
	foreign, endForeign := within(foreignWithin)
	return patience{own: own, foreign: foreign}, func() {
		endOwn()
		endForeign()
	}
}

func within(most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), most, fmt.Errorf("not within %v", most))
}

// with returns the patience with the repository of a directory.
func (p patience) with(top string) context.Context {
	info, err := os.Lstat(filepath.Join(top, ".git"))
	if err != nil {
		return p.foreign // it was just removed
	}
	owner := info.Sys().(*syscall.Stat_t).Uid // on Linux it is always one
	if int(owner) == os.Geteuid() {
		return p.own
	}
	return p.foreign
}

// LeaveShared gives a reason to the bare servers of files that other people share: a client reads the file
// from a project, and git tracks it, or cannot answer. A person who names a file means it. A repository at
// the top of the home has the dotfiles of one person.
func LeaveShared(files []*File) {
	p, end := newPatience()
	defer end()
	for _, c := range files {
		leaveShared(p, c)
	}
}

func leaveShared(p patience, c *File) {
	isBare := func(s wrapping.Server) bool { return s.State == wrapping.Bare }
	if c.Project == "" || c.Named || c.Err != nil || !slices.ContainsFunc(c.Servers, isBare) {
		return
	}
	isTracked, err := isTracked(p, c.content.Target)
	switch {
	case err != nil:
		c.reader.Shared = fmt.Sprintf(unanswered, err)
	case isTracked:
		c.reader.Shared = tracked
	default:
		return
	}
	c.Servers = c.reader.Servers(c.document)
}

// TrackedNote returns a note about a file of the user that git tracks, as a link into a repository of
// dotfiles: other machines can get the change. It is "" for any other file, and for one of a project,
// which has a reason.
func (c *File) TrackedNote() string {
	if c.Project != "" {
		return ""
	}
	p, end := newPatience()
	defer end()
	isTracked, err := isTracked(p, c.content.Target)
	if err != nil || !isTracked {
		return ""
	}
	return "git tracks " + cli.OneLine(c.content.Target) +
		": its servers fail on a machine that does not have mcpscope at this path"
}

// isTracked runs git, which alone reads all forms of its index. For a file below a repository, the error is
// that of git, that there is no git, or that it does not answer.
func isTracked(p patience, file string) (bool, error) {
	dir, name := filepath.Split(file)
	top := repository(dir)
	if top == "" || sameDirectory(top, settings.Home(os.Getenv)) {
		return false, nil
	}
	err := git(p.with(top), top, "-C", dir, "ls-files", "--error-unmatch", "--", name)
	const untracked = 1
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ok && exit.ExitCode() == untracked {
		return false, nil
	}
	return err == nil, err
}

// repository returns the directory above a file that has a repository, or "".
func repository(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return filepath.Clean(dir)
		}
		above := filepath.Dir(filepath.Clean(dir))
		if above == dir {
			return ""
		}
		dir = above
	}
}

// git reads a repository, also one of another user, and runs no program of it: a file system monitor is one,
// and so is the transport for an object that is missing. The variables of a hook are those of another
// repository.
func git(ctx context.Context, top string, args ...string) error {
	args = append([]string{"-c", "core.fsmonitor=false", "-c", "safe.directory=" + top}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.WaitDelay = endWithin // a program of git may hold its output open
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	_, err := cmd.Output()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || len(exit.Stderr) == 0 {
		return err
	}
	line, _, _ := strings.Cut(string(exit.Stderr), "\n")
	return fmt.Errorf("%s (%w)", strings.TrimPrefix(line, "fatal: "), err)
}

func sameDirectory(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// IsOfSudoUser reports whether sudo runs this program, and the file belongs to the user who called sudo.
// Root's backup of it would be where that user does not find it.
func (c *File) IsOfSudoUser() bool {
	if !IsSudo() {
		return false
	}
	info, err := os.Stat(c.content.Target)
	if err != nil {
		return false
	}
	owner := info.Sys().(*syscall.Stat_t).Uid // on Linux it is always one
	return strconv.Itoa(int(owner)) == os.Getenv("SUDO_UID")
}

// IsSudo reports whether sudo runs this program as root for another user.
func IsSudo() bool {
	uid, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	return err == nil && uid != 0 && os.Geteuid() == 0
}
