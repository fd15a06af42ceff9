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
// are arguments: the environment belongs to the command.
const (
	stagePrefix = "testhost:"
	stageBoot   = stagePrefix + "boot"
	stagePoor   = stagePrefix + "poor"
)

var stagesKnown bool

// Stage must be called first in the TestMain of a package that does something before Main.
func Stage() {
	stagesKnown = true
	if len(os.Args) != 3 || !strings.HasPrefix(os.Args[1], stagePrefix) {
		return
	}
	// Namespaces, filters, ids and capabilities are a thread's own; execve keeps
	// those of the thread that calls it.
	runtime.LockOSThread()
	var err error
	switch plan := []byte(os.Args[2]); os.Args[1] { // each returns only when it fails
	case stageBoot:
		err = withPlan(plan, becomeSystemd)
	case stagePoor:
		err = withPlan(plan, becomePoor)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
	os.Exit(97)
}

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
