// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
)

func TestCommandInSession(t *testing.T) {
	h := Current(t)
	for _, u := range []User{Tester, NoLinger} {
		out := output(t, h.Command(u.InSession(), "sh", "-c", `echo $XDG_RUNTIME_DIR $XDG_SESSION_CLASS; cat /proc/self/cgroup`))
		if !strings.HasPrefix(out, u.RuntimeDir()+" user\n") || !strings.Contains(out, "/session-") {
			t.Errorf("%s:\n%s", u.Name, out)
		}
	}
	err := h.Command(Tester.InSession(), "sh", "-c", "exit 7").Run()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 7 {
		t.Errorf("exit 7 shows as %v", err)
	}
	if out := output(t, h.Command(Tester, "env")); strings.Contains(out, "XDG_") || strings.Contains(out, "DBUS") {
		t.Errorf("without a session the environment is\n%s", out)
	}
}

func TestCommandsShareASession(t *testing.T) {
	s := Current(t).Login(t, Tester)
	first := output(t, s.Command("cat", "/proc/self/cgroup"))
	if !strings.HasSuffix(first, "/"+s.Unit) {
		t.Errorf("not in %s: %s", s.Unit, first)
	}
	if got := output(t, s.Command("sh", "-c", "id -u; echo $XDG_SESSION_ID")); got != "1000\n"+s.ID {
		t.Errorf("uid and session are %q", got)
	}
	if out := output(t, s.Command("systemctl", "--user", "is-system-running")); out != "running" {
		t.Errorf("the user manager is %s", out)
	}
}

func TestLogoutEndsTheSession(t *testing.T) {
	s := Current(t).Login(t, Tester)
	within(t, patience, "logout", func() error {
		if err := s.Logout(); err != nil {
			return err
		}
		return s.Await(patience)
	})
	if err := exec.Command("loginctl", "show-session", s.ID).Run(); err == nil {
		t.Errorf("session %s is still known", s.ID)
	}
}

// The default of Debian, KillUserProcesses=no, is what nohup relies on.
func TestLogoutSparesWhatRuns(t *testing.T) {
	s := Current(t).Login(t, Tester)
	cmd := s.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Logout(); err != nil {
		t.Error(err)
	}
	if state := output(t, exec.Command("loginctl", "show-session", "--value", "-p", "State", s.ID)); state != "closing" {
		t.Errorf("the session is %s", state)
	}
	if empty, err := bed.Empty(s.Group); empty || err != nil {
		t.Errorf("nothing survived the logout (%v)", err)
	}
	output(t, exec.Command("systemctl", "stop", s.Unit))
	_ = cmd.Wait() // ended by the signal
	if err := s.Await(patience); err != nil {
		t.Error(err)
	}
}

func TestTerminateEndsAllOfTheSession(t *testing.T) {
	s := Current(t).Login(t, Tester)
	cmd := s.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Terminate(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // ended by the signal
	if err := s.Await(patience); err != nil {
		t.Error(err)
	}
}

// Without lingering the manager lives as long as a session does.
func TestManagerOfNoLinger(t *testing.T) {
	s := Current(t).Login(t, NoLinger)
	if out := output(t, s.Command("systemctl", "--user", "is-system-running")); out != "running" {
		t.Errorf("the user manager is %s", out)
	}
	manager := hierarchy + "/user.slice/user-1001.slice/user@1001.service"
	if err := s.Logout(); err != nil {
		t.Error(err)
	}
	if err := bed.WaitEmpty(manager, 5*time.Second); err != nil {
		t.Errorf("after the last logout: %v", err)
	}
}
