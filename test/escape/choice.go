// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A test run has one of three sizes: the core (the default), a slice of all other tests, or everything. Tests
// that are chosen with go test -run are run whole, unless SliceEnv is set.
//
// SliceEnv selects slice K of N, as "K/N", or the core, as "core". A test's name alone decides its slice, so
// N runs with K from 0 to N-1 run each test beside the core once. FullEnv selects everything.
const (
	SliceEnv = "TESTS_SLICE"
	FullEnv  = "TESTS_FULL"
)

// asked is set if go test -run chose the tests.
var asked bool

// Full reports whether this run has everything, no matter how long that takes.
func Full() bool { return asked || os.Getenv(FullEnv) != "" }

// Core reports whether this run has only the core.
func Core() bool { return !Full() && slices.Contains([]string{"", "core"}, os.Getenv(SliceEnv)) }

// inSlice reports whether this run's slice contains the name.
func inSlice(name string) bool {
	var k, n uint32
	if _, err := fmt.Sscanf(os.Getenv(SliceEnv), "%d/%d", &k, &n); err != nil || n == 0 {
		return false
	}
	hash := fnv.New32a()
	hash.Write([]byte(name))
	return hash.Sum32()%n == k%n
}

// Choose selects the package's tests for this run's size. TestMain must call it first. The tests beside the
// core are dealt out to the slices. The tables are in every size and choose their own cells. Beside and
// tables are regular expressions of whole names; tables may be "".
func Choose(m *testing.M, beside, tables string) {
	flag.Parse()
	run := flag.Lookup("test.run")
	switch {
	case flag.Lookup("test.list").Value.String() != "":
		os.Exit(m.Run())
	case flag.NArg() > 0: // a second life of the binary: host.Stage
		return
	case run.Value.String() != "":
		asked = os.Getenv(SliceEnv) == ""
		return
	case Full():
		return
	case Core():
		_ = flag.Set("test.skip", "^("+beside+")$") // it is valid
		return
	}
	list, err := exec.Command("/proc/self/exe", "-test.list", "^("+beside+")$").Output()
	if err != nil {
		panic(err)
	}
	names := slices.DeleteFunc(strings.Fields(string(list)), func(name string) bool { return !inSlice(name) })
	if tables != "" {
		names = append(names, tables)
	}
	_ = run.Value.Set("^(" + strings.Join(names, "|") + ")$")
}

// kinds are modes that need different steps of a stop: in the core each meets each class of ends.
var kinds = []string{"double-fork", "ignore-both", "fork-bomb", "nested", "stop-parent"}

// Classes are ends, one of each kind: HUP and INT work like TERM, killpg like kill, client like exit.
var Classes = []string{"stdin", "TERM", "kill", "tree", "guard", "exit", "cgroup"}

// InCore deals the cells of the core out to so many backends: each kind of modes meets each class of ends,
// and each other mode one of them, on one backend.
func InCore(modes []Mode, classes []string, backend, backends int) func(Mode, End) bool {
	place := func(m Mode) int { return slices.IndexFunc(modes, func(o Mode) bool { return o.Name == m.Name }) }
	return func(m Mode, e End) bool {
		class := slices.Index(classes, e.Name)
		if class < 0 {
			return false
		}
		kind := slices.Index(kinds, m.Name)
		if kind < 0 {
			return class == place(m)%len(classes) && place(m)%backends == backend
		}
		return (kind+class)%backends == backend
	}
}

// Resting are modes that come to rest, for tables of a backend that is Idle.
var Resting = strings.Fields("plain setsid double-fork ignore-both fork-on-term stopped nested move-sibling threads-500")

// RestingCore deals their core out to so many backends.
func RestingCore(backend, backends int) func(Mode, End) bool {
	return func(m Mode, e End) bool {
		class := slices.Index(Classes, e.Name)
		return class >= 0 && class%backends == backend && m.Name == "ignore-both"
	}
}

// idleEnv has the --idle-freeze of the servers of all tables, such as 50ms. It must not change the results.
const idleEnv = "TESTS_IDLE"

// IdleFlags are flags of mcpscope run.
func IdleFlags() []string {
	if after := os.Getenv(idleEnv); after != "" {
		return []string{"--idle-freeze", after}
	}
	return nil
}

// RedEnv lists cells that failed in a recent slice. They belong to the core.
const RedEnv = "TESTS_RED"

var red = strings.Fields(os.Getenv(RedEnv))

// chosen reports whether this run has the cell.
func (t *Table) chosen(tb *testing.T, m Mode, e End) bool {
	name := tb.Name() + "/" + m.Name + "/" + e.Name
	core := t.Core == nil || t.Core(m, e) || slices.Contains(red, name)
	if Core() {
		return core
	}
	return Full() || !core && inSlice(name)
}
