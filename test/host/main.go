// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/test/bed"
)

// bootAndTest runs in the sandbox instead of the tests: they run in a host
// below it. Whatever the host leaves the sandbox finds.
func bootAndTest(o Options) int {
	own, err := bed.OwnGroup()
	if err != nil {
		return failed("%v", err)
	}
	if err := handDown(own, bed.Runner); err != nil {
		return failed("hand the sandbox's controllers down: %v", err)
	}
	m, err := boot(own, o)
	if err != nil {
		return failed("boot: %v", err)
	}
	code, err := m.runTests()
	if err != nil {
		code = failed("run the tests in the host: %v", err)
	}
	if err := m.stop(); err != nil {
		return failed("stop the host: %v", err)
	}
	return code
}

// runTests executes this binary in the host. The scope keeps it out of the groups that
// systemd manages.
func (m *machine) runTests() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	cmd := m.enter(slices.Concat([]string{
		"setpriv", "--pdeathsig", "KILL", "--",
		"systemd-run", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--",
		"env", "--chdir=" + cwd, "--", self, // no --chdir of systemd-run: env is everywhere
	}, os.Args[1:])...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), ofTheSandbox), insideEnv+"=first", "HOME="+Root.Home)
	if os.Getenv("GORACE") == "" {
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // or each execution waits a second at its end
	}
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// ofTheSandbox recognises variables that would be lies inside. Those of the machine are not in the sandbox.
func ofTheSandbox(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"HOME", "TMPDIR", bed.LayoutEnv, scopeEnv}, name)
}
