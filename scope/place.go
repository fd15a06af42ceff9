//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/systemd"
)

// Backend names where a group comes from. Everything above that is the same.
type Backend string

const (
	// Auto takes the best that the host offers.
	Auto Backend = "auto"
	// SystemdUser and SystemdSystem ask a manager for a scope in mcp.slice.
	SystemdUser   Backend = "systemd-user"
	SystemdSystem Backend = "systemd-system"
	// Delegated makes groups below our own cgroup, which was delegated to us.
	Delegated Backend = "delegated"
	// Cgroup makes groups in <cgroup2 mount>/mcp.slice/<uid>: root without systemd.
	Cgroup Backend = "cgroup"
)

// Backends lists what --backend accepts, after auto the best first.
var Backends = []Backend{Auto, SystemdUser, SystemdSystem, Delegated, Cgroup}

// ParseBackend accepts the names of Backends.
func ParseBackend(s string) (Backend, error) {
	var names []string
	for _, b := range Backends {
		if s == string(b) {
			return b, nil
		}
		names = append(names, string(b))
	}
	return "", fmt.Errorf("%q is none of %s", s, strings.Join(names, ", "))
}

// place is where a backend gets a group.
type place interface {
	backend() Backend
	// needsProcess tells whether the supervisor has to be there before its group.
	needsProcess() bool
	// group makes, locks and arms a group. supervisor is a pid for a place that needs
	// one.
	group(facts *config, supervisor int) (*group, error)
}

// placesFor returns the places that b means, the best first, and why others that it
// means are none.
func placesFor(b Backend) (places []place, errs []error) {
	here, err := ownCgroup()
	if err != nil {
		return nil, []error{fmt.Errorf("find our cgroup: %w", err)}
	}
	candidates := []Backend{b}
	if b == Auto {
		candidates = candidatesFor(os.Getuid())
	}
	for _, c := range candidates {
		p, err := here.place(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c, err))
			continue
		}
		places = append(places, p)
	}
	return places, errs
}

// noPlace says in one line why no backend works here.
func noPlace(errs []error) error {
	if len(errs) == 1 {
		return errors.Unwrap(errs[0]) // the only candidate needs no name
	}
	return &NoBackendError{errs}
}

// NoBackendError has the reason of each backend that was tried.
type NoBackendError struct{ Reasons []error }

func (e *NoBackendError) Error() string {
	var parts []string
	for _, r := range e.Reasons {
		parts = append(parts, strings.ReplaceAll(r.Error(), "\n", ", "))
	}
	return "no backend works here: " + strings.Join(parts, "; ")
}

func (e *NoBackendError) Unwrap() []error { return e.Reasons }

// candidatesFor lists what auto tries. For root the system manager is the nearer one.
func candidatesFor(uid int) []Backend {
	if uid == 0 {
		return []Backend{SystemdSystem, Delegated, Cgroup}
	}
	return []Backend{SystemdUser, Delegated, Cgroup}
}

// location is where we are in the cgroup hierarchy.
type location struct {
	root *cgroup.Group // of the mount
	path string        // our own, from there
}

// place checks, as cheaply as it can, whether b can be had.
func (at location) place(b Backend) (place, error) {
	switch b {
	case SystemdSystem:
		return at.managerPlace(systemd.System)
	case SystemdUser:
		return at.managerPlace(systemd.User)
	case Delegated:
		return at.delegated()
	default:
		return at.slicePlace()
	}
}

// directory is a place whose groups we make ourselves.
type directory struct {
	name   Backend
	parent *cgroup.Group
}

func (d directory) backend() Backend   { return d.name }
func (d directory) needsProcess() bool { return false }
func (d directory) group(facts *config, _ int) (*group, error) {
	return makeGroup(d.parent, facts)
}

// slicePlace is the user's directory of the cgroup backend, made where it is missing.
// Nothing is ever written to a subtree_control here.
func (at location) slicePlace() (place, error) {
	slice, err := at.root.MkdirOpen(sliceName, 0o755)
	if err != nil {
		return nil, err
	}
	defer slice.Close()
	parent, err := slice.MkdirOpen(strconv.Itoa(os.Getuid()), 0o700)
	if err != nil {
		return nil, err
	}
	return directory{Cgroup, parent}, nil
}

// delegated is our own cgroup, if a manager has delegated it or it belongs to our user.
// The unit's own stop covers what is made below.
func (at location) delegated() (place, error) {
	if at.path == "/" {
		return nil, fmt.Errorf("we are in no unit, but in the root cgroup: %w", errors.ErrUnsupported)
	}
	here, err := at.root.Child(strings.TrimPrefix(at.path, "/"))
	if err != nil {
		return nil, err
	}
	if err := ownedBy(here, os.Getuid()); err != nil {
		_ = here.Close() // a directory
		return nil, err
	}
	return directory{Delegated, here}, nil
}

// ownedBy: to root every directory is writable, so for root only the mark counts that
// systemd puts on what it delegates.
func ownedBy(g *cgroup.Group, uid int) error {
	for _, mark := range []string{"trusted.delegate", "user.delegate"} {
		if value, _, err := g.Attr(mark); err == nil && value == "1" && uid == 0 {
			return nil
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(g.FD(), &st); err != nil {
		return fmt.Errorf("look at %s: %w", g, err)
	}
	if uid == 0 || int(st.Uid) != uid {
		return fmt.Errorf("%s is not delegated to us: %w", g, unix.EACCES)
	}
	return nil
}

// ownCgroup finds the cgroup2 mount that we are in, and where in it.
func ownCgroup() (location, error) {
	own, _, err := proc.ReadCgroup(0)
	if errors.Is(err, proc.ErrNoCgroup2) {
		return location{}, &cgroup.UnsupportedError{Feature: "cgroup v2", MinVersion: "Linux 4.5 with cgroup2 mounted"}
	}
	if err != nil {
		return location{}, err
	}
	mounts, err := proc.ReadCgroup2Mounts()
	if err != nil {
		return location{}, fmt.Errorf("find the cgroup2 mount: %w", err)
	}
	err = error(&cgroup.UnsupportedError{Feature: "cgroup v2", MinVersion: "a cgroup2 mount, e.g. at /sys/fs/cgroup"})
	for _, m := range mounts {
		var root *cgroup.Group
		if root, err = ours(m, own); err == nil {
			return location{root, own}, nil
		}
	}
	return location{}, err
}

// ours opens the root of a mount if we are where /proc/self/cgroup says. With a
// private cgroup namespace and the host's hierarchy mounted, "/" would name the
// host's real root, and we would make our groups in somebody else's tree.
func ours(m proc.Mount, own string) (*cgroup.Group, error) {
	if m.ReadOnly {
		return nil, fmt.Errorf("use cgroup2 mount %q: %w", m.Target, unix.EROFS)
	}
	if m.Root != "/" {
		return nil, fmt.Errorf("use cgroup2 mount %q, which shows %q alone: %w", m.Target, m.Root, errors.ErrUnsupported)
	}
	here, err := cgroup.Open(path.Join(m.Target, own))
	if err != nil {
		return nil, err
	}
	defer here.Close()
	member, err := here.Holds(os.Getpid())
	if err != nil {
		return nil, err
	}
	if !member {
		return nil, fmt.Errorf("use cgroup2 mount %q: it belongs to another cgroup namespace: %w", m.Target, errors.ErrUnsupported)
	}
	return cgroup.Open(m.Target)
}
