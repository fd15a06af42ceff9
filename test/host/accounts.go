// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A User is an account of the booted host.
type User struct {
	Name string
	UID  int // and GID
	Home string
}

// The accounts that tests use. Those who had the names or uids are not in the host.
var (
	Root     = User{Name: "root", Home: "/home/root"}                    // empty: in /root are the files of the machine
	Tester   = User{Name: "tester", UID: 1000, Home: "/home/tester"}     // lingers, with Options.Users
	NoLinger = User{Name: "nolinger", UID: 1001, Home: "/home/nolinger"} // no manager without a session
)

// Slice is where the user's manager has the scopes of servers; root's is the system manager.
func (u User) Slice() string {
	if u.UID == 0 {
		return hierarchy + "/mcp.slice"
	}
	return fmt.Sprintf("%s/user.slice/user-%d.slice/user@%[2]d.service/mcp.slice", hierarchy, u.UID)
}

// Scopes are the directories of those that are named after a server.
func (u User) Scopes(server string) []string {
	found, _ := filepath.Glob(u.Slice() + "/mcp-" + server + "-*.scope") // the pattern is valid
	return found
}

// Units is where a user has units of its own.
func (u User) Units() string {
	if u.UID == 0 {
		return "/etc/systemd/system"
	}
	return u.Home + "/.config/systemd/user"
}

// Both runs a test against the system manager, as root, and a user's.
func Both(t *testing.T, test func(t *testing.T, u User)) {
	for _, u := range []User{Root, Tester} {
		t.Run(u.Name, func(t *testing.T) { test(t, u) })
	}
}

// BothAtOnce is Both for tests that do nothing to the other manager, or to servers of the other user.
func BothAtOnce(t *testing.T, test func(t *testing.T, u User)) {
	Both(t, func(t *testing.T, u User) {
		t.Parallel()
		test(t, u)
	})
}

// theirs are lines of group or shadow with the names or uids of our users.
var theirs = regexp.MustCompile(`(?m)^((tester|nolinger):|[^:\n]*:[^:\n]*:(1000|1001):).*\n`)

func (t tree) accounts() error {
	users := []User{Tester, NoLinger}
	var passwd, group, shadow string
	for _, u := range users {
		passwd += fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", u.Name, u.UID, u.UID, u.Home)
		group += fmt.Sprintf("%s:x:%d:\n", u.Name, u.UID)
		shadow += fmt.Sprintf("%s:!:1::::::\n", u.Name)
	}
	err := t.edit("etc/passwd", func(text string) string { return bed.Accounts(text, Root.Home) + passwd })
	if err != nil {
		return err
	}
	for file, lines := range map[string]string{"etc/group": group, "etc/shadow": shadow} {
		err := t.edit(file, func(text string) string { return theirs.ReplaceAllString(text, "") + lines })
		if err != nil {
			return err
		}
	}
	if err := t.homes(append(users, Root)); err != nil {
		return err
	}
	// sshd and login set the audit session as well; by it logind numbers sessions.
	return t.edit("etc/pam.d/su", func(text string) string { return "session optional pam_loginuid.so\n" + text })
}

func (t tree) homes(users []User) error {
	for _, u := range users {
		if err := os.MkdirAll(t.path(u.Home), 0o700); err != nil {
			return err
		}
		if err := os.Chown(t.path(u.Home), u.UID, u.UID); err != nil {
			return err
		}
	}
	return nil
}

// Directory makes one of a user's own in Shared, and removes it with the test. Its path is short: there may
// be sockets in it.
func Directory(t *testing.T, u User) string {
	t.Helper()
	dir, err := os.MkdirTemp(Shared, "d")
	if err == nil {
		err = os.Chown(dir, u.UID, u.UID)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // with the host, at the latest
	return dir
}
