// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/hostinfo"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Hint is what to do about an error of a backend, or of auto, where we know. What run
// says is what doctor says: doctor reads it from run.
func Hint(b protocol.Backend, err error) string {
	var unsupported *cgroup.UnsupportedError
	var nowhere *backend.NoBackendError
	var limit *protocol.LimitError
	switch {
	case errors.As(err, &limit):
		return limit.Step
	case errors.As(err, &nowhere) && os.Getuid() != 0 && booted():
		return "needs a systemd user manager: " + EnableLinger()
	case errors.As(err, &nowhere) && os.Getuid() != 0:
		return delegateHint()
	case errors.As(err, &nowhere):
		return "needs systemd, a delegated cgroup (Delegate=yes), or a writable cgroup2 hierarchy"
	case errors.As(err, &unsupported):
		return "it takes " + unsupported.MinVersion
	case errors.Is(err, unix.EROFS):
		return "mount /sys/fs/cgroup read-write (docker: --security-opt writable-cgroups=true, podman: --systemd=always)"
	case errors.Is(err, unix.EMFILE):
		return "raise the limit of open files (ulimit -n)"
	case errors.Is(err, unix.EAGAIN):
		return "raise the limit of processes (ulimit -u, or pids.max of the cgroup)"
	}
	for _, try := range []func(protocol.Backend, error) string{kernelHint, hierarchyHint, backendHint} {
		if text := try(b, err); text != "" {
			return text
		}
	}
	return ""
}

// booted tells whether systemd runs this host (sd_booted(3)).
func booted() bool { return unix.Access("/run/systemd/system", unix.F_OK) == nil }

func EnableLinger() string { return "sudo loginctl enable-linger " + strconv.Itoa(os.Getuid()) }

// kernelHint: what a filter refuses looks like a lack of rights.
func kernelHint(_ protocol.Backend, err error) string {
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return ""
	}
	if lacks := hostinfo.NeededLacks(); len(lacks) > 0 {
		return "let seccomp allow " + lacks[0].Feature + " (docker: a newer version, or --security-opt seccomp=unconfined)"
	}
	return ""
}

// hierarchyHint is for what stands in the way of every backend.
func hierarchyHint(protocol.Backend, error) string {
	err := hostinfo.FindHierarchy()
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "mount -t proc proc /proc"
	case errors.Is(err, errors.ErrUnsupported):
		return "show the container its own cgroups and no others: docker, podman: --cgroupns=private, and no -v /sys/fs/cgroup"
	}
	return ""
}

func backendHint(b protocol.Backend, err error) string {
	switch b {
	case protocol.SystemdUser:
		return userManagerHint(err)
	case protocol.SystemdSystem:
		return systemManagerHint(err)
	case protocol.Delegated:
		return delegateHint()
	case protocol.Cgroup:
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return "it takes root, and that of the machine: root of a user namespace is not enough"
		}
	}
	return ""
}

const bootHint = "boot with systemd (WSL: systemd=true in /etc/wsl.conf; podman: --systemd=always with an image that starts it)"

func userManagerHint(err error) string {
	uid := os.Getuid()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return bootHint
	case errors.Is(err, fs.ErrNotExist):
		return EnableLinger()
	case errors.Is(err, unix.EPERM):
		return fmt.Sprintf("it must belong to uid %d: sudo systemctl restart user-runtime-dir@%d.service user@%d.service", uid, uid, uid)
	case unanswered(err):
		return fmt.Sprintf("sudo systemctl restart user@%d.service", uid)
	}
	return ""
}

func systemManagerHint(err error) string {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return bootHint
	case unanswered(err):
		return "systemctl is-system-running has to answer first"
	case os.Getuid() != 0:
		return "it takes root; a user has a manager of his own (systemd-user)"
	}
	return ""
}

// unanswered: nobody listens, or who does says nothing.
func unanswered(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, os.ErrDeadlineExceeded)
}

func delegateHint() string {
	unit := hostinfo.OwnUnit()
	switch {
	case unit != nil && unit.Service():
		return unit.Edit() + ", with the lines [Service] and Delegate=yes"
	case unit != nil && unit.Manager == "user":
		return "systemd-run --user --property=Delegate=yes CLIENT"
	case unit != nil:
		return fmt.Sprintf("sudo systemd-run --uid=%d --property=Delegate=yes CLIENT", os.Getuid())
	}
	if os.Getuid() == 0 {
		return "" // to root nothing is delegated but by a unit
	}
	return fmt.Sprintf("as root, make a cgroup for the client and chown %d its directory, cgroup.procs, cgroup.subtree_control, cgroup.threads", os.Getuid())
}
