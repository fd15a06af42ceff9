// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// backend is where groups come from.
type backend struct {
	name string
	lane func(*testing.T) *lane
	tree bool
	// groups is the directory of the groups of a site, or nil.
	groups func(*escape.Site) string
	// managed: a manager removes them.
	managed bool
	// way is how mcpscope reaches the manager, with a process in between; nil for its own way.
	way *way
}

// lane is where one run happens after the other, beside a server that is in use.
type lane struct {
	backend *backend
	site    *escape.Site
	client  string // the group of the process that starts servers
	groups  string // the directory of their groups, or ""
	beside  string // a group that a member goes to, or "": not everywhere may it
	// bystanders are a process in the site's own group, another server, and a child of init, as
	// the orphans of servers come to be.
	bystanders []*escape.Bystander
}

// The backends that need no manager. Each lane has a world for itself, so that only its own
// sweep can tidy up behind it.
var (
	cgroup = backend{
		name: "cgroup", lane: newWorld,
		groups: func(s *escape.Site) string { return filepath.Join(s.Dir, "mcp.slice", "0") },
	}
	tree = backend{name: "tree", lane: newWorld, tree: true}
)

func newWorld(t *testing.T) *lane {
	t.Helper()
	s := escape.NewWorld(t, programs).Site
	return &lane{site: s, client: s.Group("client"), beside: s.Group("beside")}
}

func (b *backend) newLane(t *testing.T) *lane {
	t.Helper()
	l := b.lane(t)
	l.backend = b
	if b.groups != nil {
		l.groups = b.groups(l.site)
	}
	l.bystanders = []*escape.Bystander{
		l.site.Root,
		l.site.Bystander("another server", l.client, l.site.Command(l.line("twin", "cat")...)),
		l.site.Bystander("a child of init", l.client, l.site.Command("sh", "-c", "exec 3<&0; cat <&3 & exit 0")),
	}
	for _, one := range l.bystanders {
		if !one.Lives() {
			t.Fatalf("%s does not answer", one.Name)
		}
	}
	return l
}

// line is mcpscope's command line for a server.
func (l *lane) line(name string, command ...string) []string {
	return slices.Concat([]string{mcpscope, "run", "--backend", l.backend.name, "--name", name,
		"--eof-grace", "50ms", "--term-grace", "100ms"}, escape.IdleFlags(), []string{"--"}, command)
}

// reset takes away what would make one run differ from the one before.
func (l *lane) reset() {
	if l.groups == "" || l.backend.managed {
		return
	}
	_ = unix.Rmdir(filepath.Join(l.groups, "guards")) // the first run has not made it yet
}

// armed reports whether a group was ever ready for a server.
func armed(group string) bool {
	_, err := unix.Getxattr(escape.Payload(group), "user.mcpscope.armed", make([]byte, 64))
	return err == nil
}

// left are the groups of our servers.
func (l *lane) left(name string) []string {
	if l.groups == "" {
		return nil
	}
	suffix := ""
	if l.backend.managed {
		suffix = ".scope"
	}
	return escape.Servers(l.groups, name, "*"+suffix)
}

// lanes are taken by one run at a time.
type lanes chan *lane

func (b *backend) lanes(t *testing.T, n int) lanes {
	t.Helper()
	all := make(lanes, n)
	for range n {
		all <- b.newLane(t)
	}
	return all
}

// managed is the backend of a user's manager, the system's for root.
func managed(u host.User) backend {
	b := backend{name: "systemd-system", managed: true, lane: func(t *testing.T) *lane { return newUnit(t, u) }}
	if u.UID != 0 {
		b.name = "systemd-user"
	}
	b.groups = func(*escape.Site) string { return u.Slice() }
	return b
}

// newUnit is a lane whose clients are in a unit of the manager, to which their scopes are
// bound.
func newUnit(t *testing.T, u host.User) *lane {
	t.Helper()
	h := host.Current(t)
	group, err := h.Start(t, host.Service{User: u, Argv: []string{"sleep", "infinity"}}).Group()
	if err != nil {
		t.Fatal(err)
	}
	s := &escape.Site{T: t, Programs: programs, UID: u.UID, Dir: group, View: group}
	s.Command = func(args ...string) *exec.Cmd {
		cmd := h.Command(u, args...)
		if u.UID == 0 {
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8"}
		}
		return cmd
	}
	s.Root = s.Bystander("in the unit", group, s.Command("cat"))
	return &lane{site: s, client: group}
}

// ways are the managers, by their private sockets.
func ways() map[*way]backend {
	root := host.Root
	tester := host.Tester
	return map[*way]backend{
		{root, "/run/systemd/private"}:                                  managed(root),
		{tester, filepath.Join(tester.RuntimeDir(), "systemd/private")}: managed(tester),
	}
}

func isMessage(v visit) bool { return v.role == toManager || v.role == fromManager }

func isCall(v visit) bool { return !isMessage(v) }
