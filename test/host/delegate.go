// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mcpscope/mcpscope/test/bed"
)

const scopeEnv = "TESTHOST_SCOPE"

// delegate asks a machine that runs systemd itself for a scope that is ours, and
// executes the run again in it. There the sandbox is made beside this process,
// with all controllers.
func delegate() error {
	if _, err := os.Stat("/run/systemd/system"); err != nil || !bed.Outermost() {
		return nil
	}
	own, err := bed.OwnGroup()
	if err != nil {
		return err
	}
	if os.Getenv(scopeEnv) != filepath.Base(own) {
		return executeInScope()
	}
	if err := os.Setenv(bed.PlaceEnv, own); err != nil {
		return err
	}
	_, err = handDown(own, "outer") // what is in the scope goes with it
	return err
}

func executeInScope() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	run, err := exec.LookPath("systemd-run")
	if err != nil {
		return err
	}
	unit := fmt.Sprintf("mcpscope-test-%d.scope", os.Getpid())
	argv := append([]string{run, "--scope", "--quiet", "--collect", "--unit=" + unit,
		"--property=Delegate=yes", "--", self}, os.Args[1:]...)
	return os.NewSyscallError("execve", syscall.Exec(run, argv, append(os.Environ(), scopeEnv+"="+unit)))
}

// A leaf is the group that this process has moved to, so that the one above it can
// hand its controllers down: a group with processes of its own can't.
type leaf struct {
	above, name string
	controllers []string
}

// handDown moves this process from dir to a leaf below it, then enables all
// controllers of dir for the groups in it. Without controllers it does nothing.
func handDown(dir, name string) (leaf, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return leaf{}, err
	}
	l := leaf{above: dir, name: name, controllers: strings.Fields(string(text))}
	if len(l.controllers) == 0 {
		return l, nil
	}
	if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
		return l, err
	}
	if err := bed.Write(filepath.Join(dir, name, "cgroup.procs"), "0"); err != nil {
		return l, err
	}
	return l, l.control("+")
}

func (l leaf) control(sign string) error {
	for _, c := range l.controllers {
		if err := bed.Write(filepath.Join(l.above, "cgroup.subtree_control"), sign+c); err != nil {
			return err
		}
	}
	return nil
}

// leave undoes handDown, when no other group below has a process any more.
func (l leaf) leave() error {
	if len(l.controllers) == 0 {
		return nil
	}
	if err := l.control("-"); err != nil {
		return err
	}
	if err := bed.Write(filepath.Join(l.above, "cgroup.procs"), "0"); err != nil {
		return err
	}
	return os.Remove(filepath.Join(l.above, l.name))
}
