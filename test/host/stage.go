// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// A stage is a short second life of the test binary, which prepares what only the
// process itself can prepare, and then executes something else. Its name and plan
// are arguments: the environment belongs to what is executed in the end.
const (
	stagePrefix = "testhost:"
	stageBoot   = stagePrefix + "boot"
	stagePoor   = stagePrefix + "poor"
)

// stageFailed is the exit status of a stage that could not do its work.
const stageFailed = 97

var stagesKnown bool

// Stage must be called first in the TestMain of a package that uses Systemd or
// Poor without Main.
func Stage() {
	stagesKnown = true
	if len(os.Args) != 3 || !strings.HasPrefix(os.Args[1], stagePrefix) {
		return
	}
	// Namespaces, filters, ids and capabilities are a thread's own; execve keeps
	// those of the thread that calls it.
	runtime.LockOSThread()
	err := runStage(os.Args[1], []byte(os.Args[2]))
	fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
	os.Exit(stageFailed)
}

func runStage(name string, plan []byte) error {
	switch name {
	case stageBoot:
		return withPlan(plan, becomeSystemd)
	case stagePoor:
		return withPlan(plan, becomePoor)
	}
	return fmt.Errorf("no such stage")
}

// withPlan calls a stage that returns only when it fails.
func withPlan[P any](text []byte, run func(P) error) error {
	var plan P
	if err := json.Unmarshal(text, &plan); err != nil {
		return err
	}
	return run(plan)
}

// stageCommand executes this binary as a stage.
func stageCommand(name string, plan any) (*exec.Cmd, error) {
	if !stagesKnown {
		return nil, fmt.Errorf("the package's TestMain has to call host.Stage or host.Main")
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	// not by its path: go test makes the directory for its own user alone
	return exec.Command("/proc/self/exe", name, string(text)), nil
}
