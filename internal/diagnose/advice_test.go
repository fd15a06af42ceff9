// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A runner that was built with cgo has no start without a Go runtime, and doctor names the command that builds one
// with it.
func TestAdviceForARunnerWithCgo(t *testing.T) {
	dir := t.TempDir()
	source, file := filepath.Join(dir, "main.go"), filepath.Join(dir, "runner")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for cgo, want := range map[string]bool{"0": false, "1": true} {
		build := exec.Command("go", "build", "-o", file, source)
		build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		d := &diagnosis{Backend: protocol.Cgroup, withCgo: builtWithCgo(file)}
		d.Host.Init.Reaps = true
		advised := slices.ContainsFunc(d.advise(), func(a advice) bool {
			return strings.HasPrefix(a.Command, "CGO_ENABLED=0 go install ")
		})
		if advised != want {
			t.Errorf("CGO_ENABLED=%s: advised %v, want %v", cgo, advised, want)
		}
	}
	if builtWithCgo("/etc/passwd") {
		t.Error("a file that is no Go program counts")
	}
}
