// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Tracked is the reason for a bare server in a file that other people get by git.
const Tracked = "tracked by git, for people without mcpscope at this path: mcpscope wrap --shared"

// LeaveShared gives the reason [Tracked] to the bare servers of a file that other people share: a client
// reads it from a project, and git tracks it. A person who names a file means it. A repository at the top of
// the home has the dotfiles of one person.
func (c *File) LeaveShared() {
	isBare := func(s wrapping.Server) bool { return s.State == wrapping.Bare }
	if !c.Project || c.Named || c.Err != nil || !slices.ContainsFunc(c.Servers, isBare) {
		return
	}
	if !isTracked(c.content.Target) {
		return
	}
	c.reader.Shared = Tracked
	c.Servers = c.reader.Servers(c.document)
}

// isTracked runs git, which alone reads all forms of its index. It is false without git.
func isTracked(file string) bool {
	dir, name := filepath.Split(file)
	top, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil || sameDirectory(strings.TrimSuffix(top, "\n"), settings.Home(os.Getenv)) {
		return false
	}
	_, err = git(dir, "ls-files", "--error-unmatch", "--", name)
	return err == nil
}

// git runs no program of the repository: a file system monitor is one.
func git(dir string, args ...string) (string, error) {
	args = append([]string{"-C", dir, "-c", "core.fsmonitor=false"}, args...)
	out, err := exec.Command("git", args...).Output()
	return string(out), err
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
	return err == nil && strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)) == os.Getenv("SUDO_UID")
}

// IsSudo reports whether sudo runs this program as root for another user.
func IsSudo() bool {
	uid, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	return err == nil && uid != 0 && os.Geteuid() == 0
}
