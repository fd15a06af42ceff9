// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A Site is the part of a host that a test has for itself: a group, and the means to start
// something in it or in a group below.
type Site struct {
	T        *testing.T
	Programs Programs
	Dir      string // its group, as we see it
	View     string // and as those do who are in it
	UID      int    // whose the groups are that are made below it
	// Delegates marks them as systemd marks what it delegates to root.
	Delegates bool
	// Command makes a command that will run there. None of the test's own environment
	// reaches it.
	Command func(args ...string) *exec.Cmd
	Root    *Bystander // in the group itself
	made    int        // groups with a number
}

// Make makes the site's own group and removes it, with all that is in it, at the end of
// the test.
func (s *Site) Make() {
	s.T.Helper()
	s.T.Cleanup(func() {
		if err := bed.Destroy(s.Dir); err != nil {
			s.T.Errorf("remove the site: %v", err)
		}
	})
	if err := s.makeGroup(s.Dir); err != nil {
		s.T.Fatal(err)
	}
}

// Group makes a group in the site.
func (s *Site) Group(name string) string {
	s.T.Helper()
	dir := filepath.Join(s.Dir, name)
	if err := s.makeGroup(dir); err != nil {
		s.T.Fatal(err)
	}
	return dir
}

// makeGroup also gives it away.
func (s *Site) makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if s.Delegates {
		if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
			return fmt.Errorf("mark %s: %w", dir, err)
		}
	}
	if s.UID == 0 {
		return nil
	}
	return bed.Delegate(dir, s.UID)
}

// Unique makes a group with a number in its name.
func (s *Site) Unique(name string) string {
	s.T.Helper()
	s.made++
	return s.Group(fmt.Sprint(name, s.made))
}

// Seen is the path by which the site itself knows one of its groups.
func (s *Site) Seen(dir string) string {
	return filepath.Join(s.View, strings.TrimPrefix(dir, s.Dir))
}

// Start starts cmd, born in the group.
func (s *Site) Start(group string, cmd *exec.Cmd) {
	s.T.Helper()
	if err := StartIn(group, cmd); err != nil {
		s.T.Fatal(err)
	}
}

// StartIn is Start for goroutines, which must not end the test.
func StartIn(group string, cmd *exec.Cmd) error {
	fd, err := unix.Open(group, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", group, err)
	}
	defer unix.Close(fd)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD = true
	cmd.SysProcAttr.CgroupFD = fd
	return cmd.Start()
}

// NewClient starts a client in the group. Options are client/client.c's.
func (s *Site) NewClient(group string, options []string, command []string, extra ...*os.File) *Client {
	s.T.Helper()
	cmd := s.Command(s.ClientLine(options, command)...)
	cmd.ExtraFiles = extra
	return StartClient(s.T, cmd, func() error { return StartIn(group, cmd) })
}

// ClientLine is the command line of a client with the server's command.
func (s *Site) ClientLine(options, command []string) []string {
	return append(append(append([]string{s.Programs.Client}, options...), "--"), command...)
}
