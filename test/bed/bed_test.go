// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// A process or group left in a sandbox fails the run, and is killed and removed with it. The next run removes
// the remains of a killed run, but nothing that belongs to a running one.
func TestSandboxEndsWhatIsLeft(t *testing.T) {
	box, err := newSandbox()
	if err != nil {
		t.Fatal(err)
	}
	if err := box.makeTemp(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(box.dir, "nested/empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: box.fd}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := removeStale(Root(t)); err != nil {
		t.Error(err)
	}
	if empty, err := Empty(box.dir); empty || err != nil {
		t.Errorf("the sandbox of a run that lives is empty: %v, %v", empty, err)
	}
	left, err := box.clear(0)
	if text := strings.Join(left, "\n"); err != nil || !strings.Contains(text, fmt.Sprintf("pid %d (", cmd.Process.Pid)) || !strings.Contains(text, "group nested/empty") {
		t.Errorf("left are %q, %v", left, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	for _, dir := range []string{box.dir, box.temp} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	stale := filepath.Join(Root(t), sandboxPrefix+"1", "nested")
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeStale(Root(t)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Errorf("%s is left", stale)
	}
	if err := WaitEmpty(Root(t), time.Nanosecond); err == nil {
		t.Error("our own group counts as empty")
	}
}
