//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/resources"
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
	// Tree needs no cgroup: what descends from the supervisor is the group. It is the
	// weakest; docs/understand/containment.md says what can get away from it.
	Tree Backend = "tree"
)

// Backends lists what --backend accepts, after auto the best first.
var Backends = []Backend{Auto, SystemdUser, SystemdSystem, Delegated, Cgroup, Tree}

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
	// group makes, locks and arms a group. pids are for a place that needs processes: the
	// supervisor, and what is to be in the group with it.
	group(facts *config, pids ...int) (launched, error)
	// shelter moves the calling process to where nothing reaches it that ends its client.
	shelter() error
}

// placesFor returns the places that the server may be in, the best first, and why others
// are none.
func (s *Server) placesFor() (here location, places []place, errs []error) {
	candidates := s.candidates()
	if len(candidates) == 0 {
		return here, nil, []error{fmt.Errorf("%s: %w", s.Backend, errWeak)}
	}
	here, err := cgroupOf(s.Client)
	if err != nil && candidates[0] != Tree { // the only one that needs no cgroup
		errs = []error{fmt.Errorf("find our cgroup: %w", err)}
		candidates = slices.DeleteFunc(candidates, func(c Backend) bool { return c != Tree })
	}
	here.slice, here.sole, here.limits = s.Slice, len(candidates) == 1, s.Limits.Files
	for _, c := range candidates {
		p, err := here.place(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c, err))
			continue
		}
		places = append(places, p)
	}
	return here, places, errs
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
		parts = append(parts, oneLine(r))
	}
	return "no backend works here: " + strings.Join(parts, "; ")
}

// oneLine: joined errors are a line each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }

func (e *NoBackendError) Unwrap() []error { return e.Reasons }

// errWeak: whoever asks for tree does not overrule whoever wants more.
var errWeak = errors.New("it was asked for, and is weaker than --require (or MCPSCOPE_REQUIRE, or mcpscope.toml) allows")

// candidates lists what is tried.
func (s *Server) candidates() []Backend {
	all := []Backend{s.Backend}
	if s.Backend == Auto {
		all = candidatesFor(os.Getuid())
	}
	if s.Require {
		all = slices.DeleteFunc(all, func(c Backend) bool { return c == Tree })
	}
	return all
}

// candidatesFor lists what auto tries. For root the system manager is the nearer one.
func candidatesFor(uid int) []Backend {
	if uid == 0 {
		return []Backend{SystemdSystem, Delegated, Cgroup, Tree}
	}
	return []Backend{SystemdUser, Delegated, Cgroup, Tree}
}

// location is where we are in the cgroup hierarchy.
type location struct {
	root *cgroup.Group // of the mount
	path string        // our own, from there
	// slice is where scopes go.
	slice string
	// limits are what a group is to have.
	limits []resources.Limit
	// sole: there is one candidate.
	sole bool
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
	case Tree:
		return newTreePlace()
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
func (d directory) group(facts *config, _ ...int) (launched, error) {
	g, err := makeGroup(d.parent, facts)
	if (errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EAGAIN)) && d.repair() {
		g, err = makeGroup(d.parent, facts)
	}
	if err != nil {
		return nil, err // not g: a nil pointer in an interface is not nil
	}
	return g, nil
}

// repair undoes what keeps every group from being made: a server of root's can freeze the directories
// of the backend cgroup, and limit what is made in them. What others have made is left as it is.
func (d directory) repair() (changed bool) {
	if d.name != Cgroup {
		return false
	}
	slice, err := d.parent.Parent()
	if err != nil {
		return false
	}
	defer slice.Close()
	above := uint64(1) // levels between a group and the directory
	for _, dir := range []*cgroup.Group{d.parent, slice} {
		if ofSystemd(dir) {
			break
		}
		changed = makeUsable(dir, above) || changed
		above++
	}
	return changed
}

// makeUsable takes away a freeze, and limits that no group fits in. A limit that leaves room for some
// is somebody's wish.
func makeUsable(dir *cgroup.Group, levels uint64) (changed bool) {
	leaves := uint64(2)
	for file, least := range map[string]uint64{"cgroup.max.depth": levels + 1, "cgroup.max.descendants": levels + leaves} {
		if most, limited := dir.Number(file); limited && most < least {
			changed = dir.Write(file, "max") == nil || changed
		}
	}
	if frozen, _ := dir.Number("cgroup.freeze"); frozen == 1 {
		changed = dir.SetFrozen(false) == nil || changed
	}
	return changed
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
	if above := at.handingDown(here); above != nil {
		_ = here.Close() // a directory
		return directory{Delegated, above}, nil
	}
	if err := ownedBy(here, os.Getuid()); err != nil {
		_ = here.Close() // as above
		return nil, err
	}
	return directory{Delegated, here}, nil
}

// handingDown is the directory above, if it was delegated to us too and groups in it can have the
// limits. In our own, which has processes, none can: so a client that wants limits goes to a
// group below its unit's (DelegateSubgroup=), and has that hand controllers down.
func (at location) handingDown(here *cgroup.Group) *cgroup.Group {
	if len(at.limits) == 0 || path.Dir(at.path) == "/" {
		return nil
	}
	above, err := here.Parent()
	if err != nil {
		return nil
	}
	if ownedBy(above, os.Getuid()) != nil || !resources.HandsDown(above, at.limits) {
		_ = above.Close() // a directory
		return nil
	}
	return above
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
func ownCgroup() (location, error) { return cgroupOf(0) }

// cgroupOf is ownCgroup for another process; 0 is ourselves.
func cgroupOf(pid int) (location, error) {
	own, _, err := proc.ReadCgroup(pid)
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
		if root, err = shows(m, own, pid); err == nil {
			return location{root: root, path: own}, nil
		}
	}
	return location{}, err
}

// shows opens the root of a mount if the process is where /proc/PID/cgroup says. With a
// private cgroup namespace and the host's hierarchy mounted, "/" would name the
// host's real root, and we would make our groups in somebody else's tree.
func shows(m proc.Mount, own string, pid int) (*cgroup.Group, error) {
	if pid == 0 {
		pid = os.Getpid()
	}
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
	member, err := here.Holds(pid)
	if err != nil {
		return nil, err
	}
	if !member {
		return nil, fmt.Errorf("use cgroup2 mount %q: it belongs to another cgroup namespace: %w", m.Target, errors.ErrUnsupported)
	}
	return cgroup.Open(m.Target)
}
