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
)

// Backend names where a group comes from. Everything above that is the same.
type Backend string

const (
	// Auto takes the best that the host offers.
	Auto Backend = "auto"
	// Cgroup makes groups in <cgroup2 mount>/mcp.slice/<uid>: root without systemd.
	Cgroup Backend = "cgroup"
)

// Backends lists what --backend accepts.
var Backends = []Backend{Auto, Cgroup}

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

// choose returns the directory in which groups are made, and the backend's name.
func choose(b Backend) (*cgroup.Group, Backend, error) {
	parent, err := cgroupPlace()
	return parent, Cgroup, err
}

// cgroupPlace is the user's directory of the cgroup backend, made where it is
// missing. Nothing is ever written to a subtree_control here.
func cgroupPlace() (*cgroup.Group, error) {
	root, err := hierarchy()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	slice, err := root.MkdirOpen(sliceName, 0o755)
	if err != nil {
		return nil, err
	}
	defer slice.Close()
	return slice.MkdirOpen(strconv.Itoa(os.Getuid()), 0o700)
}

// hierarchy opens the root of the cgroup2 mount that we ourselves are in.
func hierarchy() (*cgroup.Group, error) {
	own, _, err := proc.ReadCgroup(0)
	if errors.Is(err, proc.ErrNoCgroup2) {
		return nil, &cgroup.UnsupportedError{Feature: "cgroup v2", MinVersion: "Linux 4.5 with cgroup2 mounted"}
	}
	if err != nil {
		return nil, fmt.Errorf("find our own cgroup: %w", err)
	}
	mounts, err := proc.ReadCgroup2Mounts()
	if err != nil {
		return nil, fmt.Errorf("find the cgroup2 mount: %w", err)
	}
	err = error(&cgroup.UnsupportedError{Feature: "cgroup v2", MinVersion: "a cgroup2 mount, e.g. at /sys/fs/cgroup"})
	for _, m := range mounts {
		var root *cgroup.Group
		if root, err = ours(m, own); err == nil {
			return root, nil
		}
	}
	return nil, err
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
