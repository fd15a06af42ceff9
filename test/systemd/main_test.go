// SPDX-License-Identifier: Apache-2.0

// Package systemd tests the scopes that mcpscope asks a real systemd for, in a booted
// host of the test run's own (test/host).
package systemd

import (
	"os"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/transparent"
)

const patience = 30 * time.Second

var mcpscope = host.Shared + "/mcpscope"

var programs = escape.ProgramsIn(host.Shared)

func TestMain(m *testing.M) {
	escape.Choose(m, "Test(Transparent.*|Terminal.*|Seed.*|Churn|Soak|DoctorOnPoorHosts|Selftest.*)", "TestEscape")
	bed.Parallel(16) // the escape table bounds itself
	host.Main(m, host.Options{Users: true, Build: build, Writable: escape.TableFiles()})
}

func build(dir string) error {
	if err := escape.AppendTable(""); err != nil { // where the host finds it
		return err
	}
	return escape.Build(dir, transparent.Commands(map[string][]string{"listener": escape.Go("./listener")}))
}

// process is a member, held by a pidfd.
type process struct{ *escape.Process }

func (p process) alive() bool { return !p.Ended(0) }

// processes opens all that are in a directory of a scope.
func processes(t *testing.T, dir string) []process {
	t.Helper()
	pids, err := escape.GroupPids(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []process
	for _, pid := range pids {
		p, err := escape.OpenProcess(pid)
		if err != nil {
			t.Fatalf("open %d of %s: %v", pid, dir, err)
		}
		t.Cleanup(p.Close)
		all = append(all, process{p})
	}
	return all
}

// dead fails the test if one of the processes outlives the limit.
func dead(t *testing.T, what string, all []process) {
	t.Helper()
	if len(all) == 0 {
		t.Errorf("%s: there was none, so this tests nothing", what)
	}
	for _, p := range all {
		if !p.Ended(patience) {
			t.Errorf("%s: %s lives", what, escape.Describe(p.PID))
		}
	}
}

// gone waits until systemd has removed a scope.
func gone(t *testing.T, dir string) {
	t.Helper()
	if err := escape.AwaitRemoval(dir, patience); err != nil {
		t.Fatal(err)
	}
}

// awaitFile waits until something is in a file.
func awaitFile(t *testing.T, file string) {
	t.Helper()
	if err := escape.AwaitFile(file, patience); err != nil {
		t.Fatal(err)
	}
}

// wantText waits for a file with this text.
func wantText(t *testing.T, file, want string) {
	t.Helper()
	awaitFile(t, file)
	if text, err := os.ReadFile(file); string(text) != want || err != nil {
		t.Errorf("%s says %q, %v; want %q", file, text, err, want)
	}
}

// sharedFile is a file that the user may write.
func sharedFile(t *testing.T, u host.User) string {
	t.Helper()
	f, err := os.CreateTemp(host.Shared, "file.")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Cleanup(func() { _ = os.Remove(f.Name()) }) // with the host, at the latest
	if err := f.Chown(u.UID, u.UID); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
