// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// passes: every attempt against every end, and all of them ended.
func passes(t *testing.T, d diagnosis, backend string) {
	t.Helper()
	if d.Selftest == nil || d.Selftest.Backend != backend || len(d.Selftest.Cases) != 6*3 {
		t.Fatalf("backend %q, selftest %+v", d.Backend, d.Selftest)
	}
	for _, c := range d.Selftest.Cases {
		if !c.Passed {
			t.Errorf("%s, %s: %s", c.Escape, c.End, c.Problem)
		}
	}
	if !d.Selftest.Passed {
		t.Error("it has not passed")
	}
}

func TestSelftest(t *testing.T) {
	if !escape.Full() {
		return // it takes its time, and TestSelftestInterrupted remains
	}
	host.Both(t, func(t *testing.T, u host.User) {
		t.Parallel() // it waits for graces, as a rule
		passes(t, inService(t, u, "doctor --selftest --json"), backendOf(u))
		nothingLeft(t, u, "selftest")
	})
	for kind, backend := range map[*host.Kind]string{&host.OwnCgroupfs: "cgroup", &host.Delegated: "delegated", &host.Unprivileged: "tree"} {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			passes(t, diagnose(t, host.Poor(t, *kind, mcpscope, "doctor", "--selftest", "--json").Cmd), backend)
		})
	}
}

// Whoever ends doctor ends all that it has started: each of them has a pipe from us, as
// any program's children do.
func TestSelftestInterrupted(t *testing.T) {
	h := host.Current(t)
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGKILL} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			ours, theirs, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			cmd := h.Command(host.Tester, mcpscope, "doctor", "--selftest")
			cmd.ExtraFiles = []*os.File{nil, nil, theirs} // 3 and 4 are those that the selftest uses
			cmd.SysProcAttr.Setpgid = true
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			err = cmd.Start()
			_ = theirs.Close()
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill() // it is dead, if all is well
				_ = cmd.Wait()
			}()
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "  setsid") {
			}
			// as a terminal would, to all of the group, or to doctor alone
			pid := cmd.Process.Pid
			if sig == unix.SIGINT {
				pid = -pid
			}
			if err := unix.Kill(pid, sig); err != nil { // not waited for yet
				t.Fatal(err)
			}
			_ = ours.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.Copy(io.Discard, ours); err != nil {
				t.Errorf("a process is left: %v", err)
			}
			nothingLeft(t, host.Tester, "selftest")
		})
	}
}
