// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const hides = "MCPSCOPE_TEST_HIDES"

// TestHideArguments executes this test again, for only its own arguments can be overwritten.
func TestHideArguments(t *testing.T) {
	if n := os.Getenv(hides); n != "" {
		args := slices.Clone(os.Args[len(os.Args)-len(n):])
		for i := range args {
			args[i] = strings.Clone(args[i])
		}
		if err := HideArguments([]string{"another"}); err == nil {
			t.Error("arguments of somebody else are hidden")
		}
		if err := HideArguments(args); err != nil {
			t.Error(err)
		}
		line, err := os.ReadFile("/proc/self/cmdline")
		if err != nil {
			t.Error(err)
		}
		os.Stdout.WriteString("<" + string(line) + ">")
		return
	}
	for _, args := range [][]string{{"secret"}, {"-a", "secret"}, {"", "secret", ""}, {""}} {
		cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestHideArguments$", "kept"}, args...)...)
		cmd.Env = append(os.Environ(), hides+"="+strings.Repeat("x", len(args)))
		out, err := cmd.CombinedOutput()
		hidden := strings.Repeat("\x00", len(strings.Join(args, " ")))
		if err != nil || !strings.Contains(string(out), "\x00kept\x00"+hidden+"\x00>") {
			t.Errorf("%q: %v: %q", args, err, out)
		}
	}
}
