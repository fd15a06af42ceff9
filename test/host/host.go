// SPDX-License-Identifier: Apache-2.0

// Package host gives tests a kind of host: one that runs the real systemd, or one
// that lacks something (see Poor).
//
// Main boots this machine's systemd as PID 1 of namespaces of its own, on a
// throw-away overlay of the root file system, in the sandbox of package bed, and
// executes the test binary again inside: there tests are ordinary tests of root.
// Nothing that runs inside reaches the machine's own units, /run, /tmp, /var or
// /dev, and with its PID 1 everything in it ends, also when the run is killed.
//
// Like bed, the package knows nothing of the product under test.
package host

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
)

// Shared is a directory of the booted host that every user can read. What
// Options.Build has made is there; tests may add to it.
const Shared = "/srv/mcpscope-test"

// Options say what a booted host has beyond systemd, D-Bus and logind, and the module
// that the test is in (read-only).
type Options struct {
	// Users starts tester's user manager at boot, as lingering does, and has a session
	// of tester, for Command. Both users exist without it.
	Users bool
	// Build runs before the boot, on the machine itself, where there is a network
	// and a build cache. The files that it puts into dir are in Shared inside.
	Build func(dir string) error
	// Writable are files of the machine that tests inside may write. They must be there
	// when Build has run.
	Writable []string
	// Setups run inside, before the tests of Main.
	Setups []bed.Setup
}

// insideEnv marks every execution of a test binary in the host that Main booted.
const insideEnv = "TESTHOST_INSIDE"

// patience bounds each wait, on the clock of package pace.
const patience = 30 * time.Second

// A Host is the booted systemd that a test runs in.
type Host struct{}

// Current is the host that Main has booted.
func Current(tb testing.TB) *Host {
	tb.Helper()
	if !inside() {
		tb.Fatal("not in a booted host: the package's TestMain does not call host.Main")
	}
	return &Host{}
}

func inside() bool { return os.Getenv(insideEnv) != "" }

// Main is the whole body of a TestMain. It does not return.
func Main(m *testing.M, o Options) {
	Stage()
	if inside() {
		os.Exit(runInside(m, o))
	}
	if bed.Outermost() {
		bed.SkipWithoutRoot()
	}
	if err := delegate(); err != nil {
		os.Exit(failed("%v", err))
	}
	bed.Run(func() int { return bootAndTest(o) })
}

// runInside runs the tests, in the first execution only: those that tests start
// themselves leave setups and leftovers to it.
func runInside(m *testing.M, o Options) int {
	if os.Getenv(insideEnv) != "first" {
		return m.Run()
	}
	if err := os.Setenv(insideEnv, "again"); err != nil {
		return failed("%v", err)
	}
	_, noSystemd := os.Stat("/run/systemd/system") // of a machine that is the host itself
	if o.Users && noSystemd == nil {
		end, err := loginTester()
		if err != nil {
			return failed("log %s in: %v", Tester.Name, err)
		}
		defer end()
	}
	before, err := groups()
	if err != nil {
		return failed("%v", err)
	}
	code := bed.Inside(m.Run, o.Setups...)
	left, err := leftovers(before, patience)
	if err != nil {
		return failed("%v", err)
	}
	if len(left) == 0 {
		return code
	}
	fmt.Fprintln(os.Stderr, "FAIL: host: left in the booted host by this test run:")
	for _, line := range left {
		fmt.Fprintln(os.Stderr, "\t"+line)
	}
	return max(code, 1)
}

func failed(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "FAIL: host: "+format+"\n", args...)
	return 1
}
