// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A Kind is a host that lacks something, reproduced in namespaces and by limits of a single process. It also
// lacks the manager of the test's host and its sockets in /run, like a bare container.
type Kind struct {
	Name string
	plan poorPlan
	// flags are the namespaces of the process; attr decides which of them are cloned and which unshared.
	flags uintptr
	run   runDir
}

// Unprivileged kinds run as this user without account, manager, session or group.
const nobody = 65533

// Poor prepares argv to run on a host of the kind, as the kind's user, in its own group, whose processes are
// killed at the end of the test. Package bed or Main must run the test. Start, Wait, Output and the rest are
// those of exec.Cmd; the process is that of argv itself (in the kind NoReaper its parent). The user must be
// able to read the program.
func Poor(tb testing.TB, kind Kind, argv ...string) *exec.Cmd {
	tb.Helper()
	dir := ""
	if kind.plan.Session {
		dir = sessionGroup(tb, kind.plan.UID)
	} else {
		dir = bed.Group(tb, "poor")
	}
	cmd, err := kind.command(tb, dir, argv)
	if err != nil {
		tb.Fatalf("prepare %s: %v", kind.Name, err)
	}
	return cmd
}

func (k Kind) command(tb testing.TB, dir string, argv []string) (*exec.Cmd, error) {
	p := k.plan
	p.Argv = argv
	p.Group = dir
	var err error
	if p.Run, err = k.run.prepare(tb, p.UID); err != nil {
		return nil, err
	}
	if p.Slice {
		if err := os.MkdirAll(filepath.Join(dir, "mcp.slice", "0"), 0o755); err != nil {
			return nil, err
		}
	}
	if p.Delegated {
		if err := bed.Delegate(dir, p.UID); err != nil {
			return nil, err
		}
	}
	group, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { _ = group.Close() })
	cmd, err := stageCommand(stagePoor, p)
	if err != nil {
		return nil, err
	}
	cmd.Env = k.environ()
	cmd.SysProcAttr = k.attr(int(group.Fd()))
	return cmd, nil
}

// attr clones the namespaces that are complete at birth. Those of mounts and
// cgroups are unshared afterwards: a cgroup namespace gets its root from where the
// process is then. A user namespace comes first and owns all others.
func (k Kind) attr(group int) *syscall.SysProcAttr {
	const late = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP
	attr := &syscall.SysProcAttr{
		UseCgroupFD:  true,
		CgroupFD:     group,
		Cloneflags:   k.flags &^ late,
		Unshareflags: k.flags&late | unix.CLONE_NEWNS,
	}
	if k.flags&unix.CLONE_NEWUSER != 0 {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: nobody, Size: 1}}
		attr.UidMappings = ids
		attr.GidMappings = ids
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{} // root's, in the new namespace
	}
	return attr
}

// environ is the test's, for a user without what is root's.
func (k Kind) environ() []string {
	if k.plan.UID == 0 && !k.plan.ReadOnly {
		return os.Environ()
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"HOME", "USER", "LOGNAME"}, name)
	})
	if !k.plan.ReadOnly {
		env = append(env, "HOME=/nonexistent")
	}
	return env
}

// As runs the command as a user of the booted host, in a login session.
func (k Kind) As(u User) Kind {
	k.Name += " as " + u.Name
	k.plan.UID = u.UID
	k.plan.Session = true
	return k
}

var poorSessions atomic.Int32

// sessionGroup makes a group where logind has those of a user's sessions. It knows nothing of it.
func sessionGroup(tb testing.TB, uid int) string {
	tb.Helper()
	slice := fmt.Sprintf("%s/user.slice/user-%d.slice", cgroup2(), uid)
	dir := fmt.Sprintf("%s/session-poor%d.scope", slice, poorSessions.Add(1))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := bed.Destroy(dir); err != nil {
			tb.Errorf("remove group: %v", err)
		}
		_ = os.Remove(slice) // it may be the user's own
	})
	return dir
}

// WithManagers leaves the managers of the host that the test runs on in reach:
// /run is that host's.
func (k Kind) WithManagers() Kind {
	k.Name += " with managers"
	k.run = runAsIs
	return k
}
