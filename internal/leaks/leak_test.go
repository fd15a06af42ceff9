// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// leave starts a shell, in a process group of its own that is killed with the test. It is ready when the
// script has written to descriptor 3.
func leave(t *testing.T, in, out *os.File, script string) (pid int) {
	t.Helper()
	ready, theirs := bed.Pipe(t)
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles, cmd.SysProcAttr = in, out, []*os.File{theirs},
		&unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // not reaped yet, so it is the one
		_ = cmd.Wait()                                // killed
	})
	theirs.Close()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// A process whose stdout another process reads is no leak, nor one that no configuration names, whatever it has
// below it. Stop ends a leak with its children, and not another process with the same stdin.
func TestStopSparesOthersOfItsStdin(t *testing.T) {
	in, held := bed.Pipe(t)
	lost, out := bed.Pipe(t)
	const script = "(sleep 1004 3>&- & until grep -q sleep /proc/$!/comm; do :; done; echo >&3; exec 3>&-; wait); :"
	leak, daemon := leave(t, in, out, script), leave(t, in, out, script)
	if err := errors.Join(in.Close(), held.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	// examine treats this process, the parent, as if it had adopted the process
	examine := func(configured ...string) *Leak {
		st, err := proc.ReadStat(leak)
		if err != nil {
			t.Fatal(err)
		}
		l := open(st, 0)
		server := Server{Configured: gw.Configured{Name: "time", Argv: configured}}
		if l != nil && l.isAbandoned() && l.judge(Configurations{Servers: []Server{server}}, true, listeners{}) && l.Doubt == "" {
			return l
		}
		return nil
	}
	server := []string{"sh", "-c", script}
	if l := examine(server...); l != nil {
		t.Errorf("its stdout is open: %+v", l)
		l.Close()
	}
	lost.Close()
	if l := examine("sleep", "1004"); l != nil {
		t.Errorf("a server is below it: %+v", l)
		l.Close()
	}
	l := examine(server...)
	if l == nil {
		t.Fatal("no leak")
	}
	defer l.Close()
	if err := l.Stop(0); err != nil {
		t.Error(err)
	}
	for _, pid := range append([]int{leak}, l.Below...) {
		p, err := escape.OpenProcess(pid)
		if err != nil {
			continue // gone
		}
		if !p.Ended(escape.Patience) {
			t.Errorf("the leak is left: %s", escape.Describe(pid))
		}
		p.Close()
	}
	if st, err := proc.ReadStat(daemon); err != nil || st.State == 'Z' {
		t.Errorf("another process with its stdin was stopped: %c (%v)", st.State, err)
	}
	if len(l.Below) == 0 {
		t.Error("it had no children")
	}
}

// Where configurations could not be read, those leaks count that were found, and 0 is no number.
func TestCountWithUnreadConfigurations(t *testing.T) {
	unread := []string{"read /h/.mcp.json: malformed"}
	one := []*Leak{{}}
	for _, c := range []struct {
		list  List
		count int
		known bool
	}{
		{List{}, 0, true}, {List{Found: one}, 1, true},
		{List{Unread: unread}, 0, false}, {List{Unread: unread, Found: one}, 1, true},
	} {
		count, err := c.list.count()
		if count != c.count || (err == nil) != c.known {
			t.Errorf("%+v: %d, %v", c.list, count, err)
		}
	}
}
