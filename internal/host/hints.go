// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/roof"
)

// inFrontOfSandbox is for a process in the sandbox of an agent, which lets it reach no manager.
const inFrontOfSandbox = "put mcpscope in front of the sandbox, as in: mcpscope run -- bwrap …"

// WithoutListener is for a gateway in whose surroundings no program can be held: the kernel has one listener.
const WithoutListener = "start it outside of mcpscope gateway, LXD and other programs with a seccomp listener"

// Fix returns a remedy for an error of a backend or of auto, or "".
func Fix(b names.Backend, err error) string {
	var limit *protocol.LimitError
	uid := os.Getuid()
	user := b == names.SystemdUser
	system := b == names.SystemdSystem
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	root, _, hierarchyErr := group.Position(0)
	_ = root.Close() // a directory, or nil
	switch {
	case errors.As(err, &limit):
		return limit.Step
	case is(unix.EMFILE):
		return "raise the limit of open files (ulimit -n)"
	case is(group.ErrNoSignals):
		return "give the container a cgroup (podman: --systemd=always), or no profile of AppArmor (docker, " +
			"podman: --security-opt apparmor=unconfined; Kubernetes: appArmorProfile: {type: Unconfined})"
	case is(proc.ErrForeign):
		return "mount -t proc proc /proc (bwrap: --proc /proc, unshare: --mount-proc)"
	case is(backend.ErrElsewhere, backend.ErrInJob):
		return delegateHint()
	case is(backend.ErrNoBackend) && uid == 0:
		return "provide systemd, a delegated cgroup (Delegate=yes), or a writable cgroup2 hierarchy"
	case is(backend.ErrNoBackend) && unix.Access("/run/systemd/system", unix.F_OK) == nil: // sd_booted(3)
		if err := systemd.Reach(systemd.User); err != nil {
			return Fix(names.SystemdUser, err)
		}
		return inFrontOfSandbox
	case is(backend.ErrNoBackend):
		return delegateHint()
	case is(proc.ErrNoCgroup2):
		return "it needs a cgroup2 mount"
	case is(unix.EROFS):
		return "mount /sys/fs/cgroup read-write " +
			"(docker: --security-opt writable-cgroups=true, podman: --systemd=always), or " + inFrontOfSandbox
	case is(unix.EAGAIN):
		return "raise the limit of processes (ulimit -u, or pids.max of the cgroup)"
	case is(unix.ENOSYS):
		return "let seccomp allow this system call " +
			"(docker: a newer version, or --security-opt seccomp=unconfined)"
	case errors.Is(hierarchyErr, fs.ErrNotExist):
		return "mount -t proc proc /proc"
	case errors.Is(hierarchyErr, errors.ErrUnsupported):
		return "give the container its own cgroup namespace, without a bind mount of /sys/fs/cgroup " +
			"(docker, podman: --cgroupns=private)"
	case is(systemd.ErrOutside):
		return inFrontOfSandbox
	case (user || system) && is(errors.ErrUnsupported):
		return "boot with systemd (WSL: systemd=true in /etc/wsl.conf; " +
			"podman: --systemd=always with an image that starts it)"
	case user && is(fs.ErrNotExist):
		return EnableLinger()
	case user && is(systemd.ErrNotOurs):
		return fmt.Sprintf("restore its owner, uid %[1]d: "+
			"sudo systemctl restart user-runtime-dir@%[1]d.service user@%[1]d.service", uid)
	case (user || system) && is(unix.EPERM): // a manager's own refusal is EACCES
		return inFrontOfSandbox
	case user && is(unix.ECONNREFUSED, os.ErrDeadlineExceeded):
		return fmt.Sprintf("sudo systemctl restart user@%d.service", uid)
	case system && is(unix.ECONNREFUSED, os.ErrDeadlineExceeded):
		return "repair the system manager until systemctl is-system-running answers"
	case system && uid != 0:
		return "run it as root, or use your own manager (systemd-user)"
	case b == names.Delegated:
		return delegateHint()
	case b == names.Cgroup && is(unix.EACCES, unix.EPERM):
		return "run it as root of the host: root of a user namespace is not enough"
	}
	return ""
}

// EnableLinger returns the command that gives the calling user a manager without a login.
func EnableLinger() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(name); err == nil { // in a container a uid may have no name
		name = u.Username
	}
	return "sudo loginctl enable-linger " + name
}

func delegateHint() string {
	uid := os.Getuid()
	unit := OwnUnit()
	own, _ := proc.ReadCgroup(0) // "" is in no job
	if roof.InJob(own) {         // a new unit would leave the job
		unit = nil
	}
	switch {
	case unit != nil && unit.Service() && !hasForeignProcess():
		return unit.Edit() + ", with the lines [Service] and Delegate=yes"
	case unit != nil && unit.Manager == "user":
		return "systemd-run --user --property=Delegate=yes CLIENT"
	case unit != nil:
		return fmt.Sprintf("sudo systemd-run --uid=%d --property=Delegate=yes CLIENT", uid)
	case uid == 0:
		return "" // only units delegate to root
	}
	return fmt.Sprintf("as root, make a cgroup for the client and chown %d "+
		"its directory, cgroup.procs, cgroup.subtree_control, cgroup.threads", uid)
}

// hasForeignProcess reports whether a process of another user is in the cgroup of this process. The service
// of a daemon such as cron or sshd starts programs of many users, and Delegate=yes would not be for this one.
func hasForeignProcess() bool {
	root, path, err := group.Position(0)
	if err != nil {
		return false
	}
	defer root.Close()
	list, _ := root.Read("." + path + "/cgroup.procs") // none, if it can't be read
	pids, _ := proc.ParsePIDs(list)                    // as far as they can be read
	return slices.ContainsFunc(pids, func(pid int) bool {
		status, err := proc.ReadStatus(pid) // /proc/PID is root's for a process that is not dumpable
		return err == nil && status.UID[0] != os.Getuid()
	})
}
