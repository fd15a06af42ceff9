// SPDX-License-Identifier: Apache-2.0

package escape

import (
	_ "embed"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
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

// coreList has a line for each test of the core: its package below test/, its name, and the promise that it holds. A
// name with a slash is a part of a table, which is a test that asks InSize for each of its parts. A name that ends
// with a slash is a table without a part in the core.
//
//go:embed core.txt
var coreList string

// chosen is what this test binary runs.
var chosen struct {
	asked bool            // go test -run chose the tests
	core  map[string]bool // the names of this package in coreList
}

// Full reports whether this run has everything, no matter how long that takes.
func Full() bool { return chosen.asked || os.Getenv(FullEnv) != "" }

// Core reports whether this run has only the core.
func Core() bool { return !Full() && slices.Contains([]string{"", "core"}, os.Getenv(SliceEnv)) }

// InSize reports whether this run has a part of a table. The name is that of the whole test, as go test -v prints it.
func InSize(name string) bool {
	if Core() {
		return chosen.core[name]
	}
	return Full() || !chosen.core[name] && inSlice(name)
}

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

// Choose selects the tests of a package below test/ for this run's size. TestMain must call it first.
func Choose(m *testing.M, pkg string) {
	tables := readCore(pkg)
	flag.Parse()
	run := flag.Lookup("test.run")
	switch {
	case flag.Lookup("test.list").Value.String() != "":
		os.Exit(m.Run())
	case flag.NArg() > 0: // a second life of the binary: host.Stage
		return
	case run.Value.String() != "":
		chosen.asked = os.Getenv(SliceEnv) == ""
		return
	case Full():
		return
	}
	list, err := exec.Command("/proc/self/exe", "-test.list", ".").Output()
	if err != nil {
		panic(err)
	}
	names := slices.DeleteFunc(strings.Fields(string(list)), func(name string) bool { return !tables[name] && !InSize(name) })
	_ = run.Value.Set("^(" + strings.Join(names, "|") + ")$") // it is valid
}

// readCore reads the lines of a package, and returns its tables.
func readCore(pkg string) (tables map[string]bool) {
	chosen.core = map[string]bool{}
	tables = map[string]bool{}
	for line := range strings.Lines(coreList) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != pkg {
			continue
		}
		name := fields[1]
		chosen.core[name] = true
		if table, _, isPart := strings.Cut(name, "/"); isPart {
			tables[table] = true
		}
	}
	return tables
}

// Resting are modes that come to rest, for tables of a backend that is Idle.
var Resting = strings.Fields("plain setsid double-fork ignore-both fork-on-term stopped nested move-sibling threads-500")

// idleEnv has the --idle-freeze of the servers of all tables, such as 50ms. It must not change the results.
const idleEnv = "TESTS_IDLE"

// IdleFlags are flags of mcpscope run.
func IdleFlags() []string {
	if after := os.Getenv(idleEnv); after != "" {
		return []string{"--idle-freeze", after}
	}
	return nil
}

// chosen reports whether this run has the cell.
func (t *Table) chosen(tb *testing.T, m Mode, e End) bool {
	return InSize(tb.Name() + "/" + m.Name + "/" + e.Name)
}

// Scripts returns the scripts of testscript in a directory that this run has, each of which is a part of the test.
func Scripts(t *testing.T, dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	return slices.DeleteFunc(files, func(file string) bool {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		return !InSize(t.Name() + "/" + name)
	}), err
}
