// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A yard is a unit of a user's manager with the sites of one table: so a client in a site
// has a unit that its servers' scopes are bound to. All sites have the manager's slice
// in common, where the start of one server sweeps behind the others.
type yard struct {
	host  *host.Host
	user  host.User
	dir   string
	sites atomic.Int32
}

// managers is held by all who talk to one, against a re-execution: that drops whatever
// conversation is going on.
var managers sync.RWMutex

func newYard(t *testing.T, u host.User) *yard {
	t.Helper()
	y := &yard{host: host.Current(t), user: u}
	unit := y.host.Start(t, host.Service{User: u, Argv: []string{"sleep", "infinity"}})
	var err error
	if y.dir, err = unit.Group(); err != nil {
		t.Fatal(err)
	}
	return y
}

func (y *yard) site(t *testing.T) *escape.Site {
	t.Helper()
	s := &escape.Site{T: t, Programs: programs, UID: y.user.UID, Command: y.command}
	s.Dir = filepath.Join(y.dir, fmt.Sprint("site.", y.sites.Add(1)))
	s.View = s.Dir
	s.Make()
	s.Root = s.Plain("in the site's group", s.Dir)
	return s
}

// launch starts a server in the mode plain from a site, and returns when it is up: the manager may not have been asked yet.
// Below a login's session nothing can be made in the manager's slice.
func (y *yard) launch(t *testing.T, slice, name string, flags ...string) *contained {
	t.Helper()
	m := escape.NewMembers(t)
	site := y.site(t)
	line := append([]string{mcpscope, "run", "--name", name, "--eof-grace", "1m"}, flags...)
	line = append(line, "--", programs.Zoo, "--register", m.Address, "plain")
	return awaitServer(t, site.NewClient(site.Group("client"), nil, line), m, slice)
}

func (y *yard) command(args ...string) *exec.Cmd {
	cmd := y.host.Command(y.user, args...)
	if y.user.UID == 0 {
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + host.Root.Home, "LANG=C.UTF-8"}
	}
	return cmd
}

// backend is the one whose servers are in scopes of this manager: asked for by its name, their servers start when it has started the
// scope, otherwise (auto) before.
func (y *yard) backend(name string) escape.Backend {
	return escape.Backend{
		Name: name, Site: y.site, Hold: managers.RLocker(),
		Groups:  func(*escape.Site, string) string { return y.user.Slice() },
		Removal: patience, // by systemd
		Hasty:   hasty,
		// A manager starts one scope after the other, each with a move between groups, and on
		// a busy machine a dozen clients at once wait longer than mcpscope does for any answer.
		Starts: escape.NewSemaphore(2),
	}
}

// refused: the root group is not a user's; and where a manager has controllers, its slice hands them down
// to the scopes, and those hand the memory's down to the payloads. A group that does so takes no process.
func (y *yard) refused(t *testing.T) map[string]error {
	t.Helper()
	all := make(map[string]error)
	if y.user.UID != 0 {
		all["move-root"] = unix.EACCES
	}
	first := y.launch(t, y.user.Slice(), "first", "--backend", "auto") // makes the slice
	handed, err := os.ReadFile(filepath.Join(y.user.Slice(), "cgroup.subtree_control"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(handed)) != "" {
		all["move-grandparent"] = unix.EBUSY
	}
	if handed, err := os.ReadFile(filepath.Join(first.scope, "cgroup.subtree_control")); err == nil && strings.TrimSpace(string(handed)) != "" {
		all["move-parent"] = unix.EBUSY
	}
	first.ends()
	return all
}

// hasty: a manager that stops a scope gives its guard the term grace and five seconds. Who
// is stopped again and again does not make it, nor does anyone on a machine under load.
// systemd 252 can't list the processes of a threaded group: such a scope has no time at all.
func hasty(m escape.Mode, e escape.End) string {
	if e.Name == "scope" || m.Name == "threaded" && strings.HasPrefix(e.Name, "unit-") {
		return "the manager's own time was over"
	}
	return ""
}
