// Package e2e tests mcpscope from outside: clients written in C start it as MCP
// clients do, servers that refuse to die run below it, and every process reports
// itself by a pidfd at birth, so that nothing they do can hide them.
//
// Each test has a world of its own (world_test.go), so that a sweep in one can't
// tidy up behind another.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

// patience is how long anything may take that must happen. It is for machines
// under load: no test waits this long when all is well.
const patienceSeconds = 15

// binaries are what the tests run, built once.
var binaries struct {
	mcpscope, withoutKill, zoo, client, world, probe string
}

// bare runs the escape table without mcpscope, to see what it shows then.
var bare = os.Getenv("MCPSCOPE_E2E_BARE") != ""

func TestMain(m *testing.M) {
	bed.Parallel(64) // the tests wait more than they work; see slots for those that work
	bed.Main(m, build)
}

// build compiles outside the source tree: a test leaves no file in it.
func build() (func(), error) {
	dir, err := os.MkdirTemp("", "mcpscope-e2e.")
	if err != nil {
		return nil, err
	}
	cleanup := func() { _ = os.RemoveAll(dir) } // what is left is in the temporary directory
	for _, b := range []struct {
		path    *string
		name    string
		command []string
	}{
		{&binaries.mcpscope, "mcpscope", []string{"go", "build", "-o", "", "../../cmd/mcpscope"}},
		{&binaries.withoutKill, "without-kill", []string{"go", "build", "-o", "", "-ldflags",
			"-X github.com/mcpscope/mcpscope/cgroup.killFile=cgroup.kill.hidden", "../../cmd/mcpscope"}},
		{&binaries.zoo, "zoo", cc("-pthread", "zoo/*.c")},
		{&binaries.client, "client", cc("client/client.c")},
		{&binaries.world, "world", cc("client/world.c")},
		{&binaries.probe, "probe", cc("probe/probe.c", "zoo/register.c", "zoo/member.c")},
	} {
		*b.path = filepath.Join(dir, b.name)
		if bare && b.command[0] == "go" {
			continue
		}
		if err := compile(*b.path, b.command); err != nil {
			return cleanup, err
		}
	}
	return cleanup, nil
}

func cc(args ...string) []string {
	return append([]string{"cc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", ""}, args...)
}

// compile puts the output in the place of "" and expands patterns.
func compile(output string, command []string) error {
	var args []string
	for _, arg := range command {
		switch matches, err := filepath.Glob(arg); {
		case arg == "":
			args = append(args, output)
		case err == nil && len(matches) > 0:
			args = append(args, matches...)
		default:
			args = append(args, arg)
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", filepath.Base(output), err, out)
	}
	return nil
}
