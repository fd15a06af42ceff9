// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
)

const (
	// actEnv makes a run below this one misbehave.
	actEnv = "HOST_TEST_ACT"
	// bedEnv makes it one in the sandbox alone.
	bedEnv = "HOST_TEST_BED"
)

func TestMain(m *testing.M) {
	if os.Getenv(bedEnv) != "" {
		Stage()
		bed.Main(m)
	}
	Main(m, Options{Users: true, Build: build})
}

// build makes what asks a poor host what it is like. It has no C library, which
// could not start where clone3 is refused.
func build(dir string) error {
	if os.Getenv(actEnv) == "fail" {
		return errors.New("as asked")
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "probe"), "./probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the probe: %w\n%s", err, out)
	}
	return nil
}

// output runs a command that has to succeed.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// within fails the test when something took longer than it may. It is for what
// the package promises in time.
func within(t *testing.T, limit time.Duration, what string, do func() error) {
	t.Helper()
	start := time.Now()
	if err := do(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if took := time.Since(start); took > limit {
		t.Errorf("%s took %v, more than %v", what, took, limit)
	}
}
