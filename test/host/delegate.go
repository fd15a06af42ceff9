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
	return handDown(own, "outer") // what is in the scope goes with it
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

// handDown moves this process from dir to a leaf below it, then enables all
// controllers of dir for the groups in it: a group with processes of its own can't
// hand them down.
func handDown(dir, leaf string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	controllers := strings.Fields(string(text))
	if len(controllers) == 0 {
		return nil
	}
	if err := os.Mkdir(filepath.Join(dir, leaf), 0o755); err != nil {
		return err
	}
	if err := bed.Write(filepath.Join(dir, leaf, "cgroup.procs"), "0"); err != nil {
		return err
	}
	for _, c := range controllers {
		if err := bed.Write(filepath.Join(dir, "cgroup.subtree_control"), "+"+c); err != nil {
			return err
		}
	}
	return nil
}
