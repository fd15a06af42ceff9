// SPDX-License-Identifier: Apache-2.0

// Package bed runs a test binary in a control group of its own, so that tests
// may start, freeze, kill and migrate processes without ever meeting the
// host's.
//
// Main executes the test binary twice more: as the first process of a pid namespace, and below that as the
// inner process, which is born in mcpscope-test.<number>, below the caller's own group, and sees nothing but
// that group at /sys/fs/cgroup. So tests of other binaries are as far away as those of other machines. The
// first process outlives the tests, reaps every orphan, fails the run when something is left, and removes it.
// With it the kernel kills everything else, whatever happened.
//
// The package knows nothing of the product under test and imports none of it:
// a check of a kill must not share the code that kills.
package bed

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// The names avoid the prefix MCPSCOPE_, which the product removes from the environment of servers, and takes
// for settings. With one no server would start without a Go runtime.
const (
	// LayoutEnv = "hybrid" mounts cgroup2 at /sys/fs/cgroup/unified in a tmpfs,
	// as hosts with version 1 controllers do.
	LayoutEnv = "BED_LAYOUT"
	// PlaceEnv names the group in which the sandbox is made, where that is not the
	// caller's own: controllers can't be handed down from a group with processes.
	PlaceEnv = "BED_PLACE"
	stageEnv = "BED_STAGE"
)

// The stages of a test binary: "" is the outer process.
const (
	stageInit  = "init"   // the first process of the pid namespace
	stageSetUp = "set-up" // the inner process, not yet in its own view of /sys/fs/cgroup
	stageReady = "ready"  // any further execution of the binary inside the sandbox
	// stageBeside is instead of all of them: see Beside.
	stageBeside = "beside"
)

// The first thread is the main goroutine's alone. Other processes take its user for that of the process: a
// goroutine of a test that makes its thread another user's must not get it.
func init() { runtime.LockOSThread() }

// A Setup runs in the inner process before the tests, and returns a function to run after them.
type Setup func() (cleanup func(), err error)

// Main is the whole body of a TestMain. It does not return.
func Main(m *testing.M, setups ...Setup) { Run(m.Run, setups...) }

// Run is Main for tests that are not run by this very process: they may run in a
// host that it boots inside the sandbox.
func Run(tests func() int, setups ...Setup) {
	switch os.Getenv(stageEnv) {
	case "":
		SkipWithoutRoot()
		os.Exit(outer())
	case stageInit:
		os.Exit(first())
	case stageReady:
		os.Exit(tests())
	}
	if err := enter(); err != nil {
		os.Exit(fail("cannot set the sandbox up: %v", err))
	}
	os.Exit(Inside(tests, setups...))
}

// SkipWithoutRoot ends a test binary of an ordinary user, with a line about the reason: nothing can be tested in
// it without a world of its own. Then go test ./... shows the defects, and not that this user lacks rights.
func SkipWithoutRoot() {
	if os.Geteuid() != 0 {
		fmt.Println("bed: skipped: these tests need root, for a pid namespace and cgroups of their own")
		os.Exit(0)
	}
}

// Outermost reports whether Run would make a sandbox: this process is in none yet.
func Outermost() bool { return os.Getenv(stageEnv) == "" }

// Inside does the part of Run in a process that is in the sandbox already. Skips are
// counted here, where they happen.
func Inside(tests func() int, setups ...Setup) int {
	for _, setup := range setups {
		cleanup, err := setup()
		if cleanup != nil {
			defer cleanup()
		}
		if err != nil {
			return fail("%v", err)
		}
	}
	code := tests()
	if n := skips.Load(); n > 0 {
		fmt.Printf("bed: %d skipped\n", n)
	}
	return code
}

// Parallel lets n tests run at a time, unless the command line says otherwise:
// the default, one for each CPU, is for tests that compute, not for tests that
// wait for a grace period.
func Parallel(n int) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // a known flag, a valid number
	}
}

func fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "FAIL: bed: "+format+"\n", args...)
	return 1
}
