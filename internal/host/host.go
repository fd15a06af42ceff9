// SPDX-License-Identifier: Apache-2.0

// Package host looks at what this host gives the servers of the calling process, and has the next step for
// what it does not give. It starts nothing, and changes nothing but an empty directory of its user.
package host

import (
	"fmt"
	"os"
	"os/user"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// Host is what a process finds here for its servers.
type Host struct {
	Kernel    string    `json:"kernel"`
	Cgroup    Cgroup    `json:"cgroup"`
	Backends  []Backend `json:"backends"` // in the order in which run tries them
	Lingering bool      `json:"lingering"`
	Init      Init      `json:"init"`
	Unit      *Unit     `json:"unit,omitempty"`
	Swap      string    `json:"swap,omitempty"` // zram or disk
	Job       string    `json:"job,omitempty"`  // of Slurm, as the environment has it
}

// Backend is a place for the groups of servers, as far as that can be seen without a server.
type Backend struct {
	Name        names.Backend `json:"backend"`
	Usable      bool          `json:"usable"`
	Controllers []string      `json:"controllers,omitempty"` // with which servers can be limited
	Reason      string        `json:"reason,omitempty"`      // why it is not usable
	Fix         string        `json:"fix,omitempty"`         // of the reason
}

// Init is the process that adopts orphans.
type Init struct {
	Name  string `json:"name,omitempty"`
	Reaps bool   `json:"reaps"` // false if it is not known
}

// Cgroup is the place of this process in the cgroup2 hierarchy.
type Cgroup struct {
	Mount   string `json:"mount,omitempty"`
	Path    string `json:"path,omitempty"`
	Hybrid  bool   `json:"hybrid"` // cgroup v1 is mounted, too, and has controllers
	Problem string `json:"problem,omitempty"`
}

// Look reads all of it. It takes some milliseconds, and up to 20 s where a service manager does not answer.
func Look() Host {
	h := Host{
		Kernel:    kernel(),
		Cgroup:    ownCgroup(),
		Lingering: isLingering(),
		Unit:      OwnUnit(),
		Swap:      Swap(),
		Job:       os.Getenv("SLURM_JOB_ID"),
	}
	for _, b := range backend.Candidates() {
		h.Backends = append(h.Backends, lookAt(b))
	}
	h.Init.Name, _ = proc.Comm(1) // "" without /proc
	h.Init.Reaps = group.InitReaps()
	if h.Unit != nil && h.Unit.Service() {
		h.Unit.KillMode = killMode(h.Unit)
	}
	return h
}

// lookAt finds out whether run could use a backend, as run itself does before it starts a server.
func lookAt(b names.Backend) Backend {
	found := LookFor(b, false)
	if !found.Usable {
		return found
	}
	if err := answers(b); err != nil {
		return Backend{Name: b, Reason: err.Error(), Fix: Fix(b, err)}
	}
	return found
}

// answers returns why the manager of a backend does not answer. Run finds that out when it asks for a scope.
func answers(b names.Backend) error {
	kind := systemd.System
	switch b {
	case names.SystemdSystem:
	case names.SystemdUser:
		kind = systemd.User
	default: // it has no manager
		return nil
	}
	conn, err := systemd.Dial(kind, policy.ManagerWithin)
	if err == nil {
		conn.Close()
	}
	return err
}

// LookFor finds the backend that a gateway uses which was given a backend, auto for the best, and --require.
// Of auto the reason is why there is no better one.
func LookFor(b names.Backend, require bool) Backend {
	s := launcher.Server{Places: launcher.Places{Backend: b, Require: require}}
	found, err := s.CanTake()
	if err == nil {
		err = canWatch()
	}
	if err != nil {
		return Backend{Name: b, Reason: err.Error(), Fix: Fix(b, err)}
	}
	result := Backend{Name: found.Backend, Usable: true, Controllers: found.Controllers}
	if b == names.Auto && found.Backend == names.Tree && found.Missed != nil {
		missed := fmt.Errorf("%w: %w", backend.ErrNoBackend, found.Missed)
		result.Reason = missed.Error()
		result.Fix = Fix(b, missed)
	}
	return result
}

// canWatch is what a start needs of the process itself, whatever the backend.
func canWatch() error {
	var files unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	if err == nil && files.Cur < page.FilesLeast {
		return fmt.Errorf("the limit of open files is too low: %w", unix.EMFILE)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	return unix.Close(self)
}

// Best is the backend that run uses: the first that is usable. ok is false if there is none.
func (h *Host) Best() (b Backend, ok bool) {
	i := slices.IndexFunc(h.Backends, func(b Backend) bool { return b.Usable })
	if i < 0 {
		return Backend{}, false
	}
	return h.Backends[i], true
}

// HasGroup reports whether servers get a cgroup of their own.
func (b Backend) HasGroup() bool { return b.Usable && b.Name != names.Tree }

func kernel() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	return unix.ByteSliceToString(name.Release[:])
}

// isTooOld reports whether a release of Linux is older than 5.14, which has cgroup.kill.
func isTooOld(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	if err != nil {
		return false
	}
	return major < 5 || major == 5 && minor < 14
}

func isLingering() bool {
	u, err := user.Current()
	if err != nil {
		return false
	}
	_, err = os.Stat("/var/lib/systemd/linger/" + u.Username)
	return err == nil
}

func ownCgroup() Cgroup {
	var c Cgroup
	root, _, err := group.Position(0)
	if err != nil {
		c.Problem = err.Error()
	} else {
		c.Mount = root.Path()
		_ = root.Close() // a directory
	}
	c.Path, _ = proc.ReadCgroup(0) // "" without /proc
	c.Hybrid = group.IsHybrid()
	return c
}

// killMode is that of a service, or "" without an answer.
func killMode(u *Unit) string {
	conn, err := systemd.Connect(u.Manager)
	if err != nil {
		return ""
	}
	defer conn.Close()
	service, _ := conn.Service(u.Name) // zero without an answer
	return service.Settings.KillMode
}
