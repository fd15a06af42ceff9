// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A Session is a login of a user that stays open until Logout or Terminate.
type Session struct {
	ID    string // the argument of loginctl
	Unit  string // session-ID.scope
	Group string // the scope's directory

	user   User
	group  *os.File
	leader *exec.Cmd
	stdin  io.Closer
}

// leaderScript prints the session's number and group, then waits for the logout. The leader reads it from stdin: in its
// command a reload of systemd 252 while the unit starts would change quotes, dollar signs and semicolons.
const leaderScript = `env | sed -n s/^XDG_SESSION_ID=//p; sed -n s/^0:://p /proc/self/cgroup; exec cat >/dev/null
`

// Login opens a session as a console or sshd does: by PAM, with a process of the
// user as its leader. At the end of the test it is terminated.
func (h *Host) Login(tb testing.TB, u User) *Session {
	tb.Helper()
	s := &Session{user: u}
	if err := s.open(h); err != nil {
		tb.Fatalf("log %s in: %v", u.Name, err)
	}
	tb.Cleanup(func() {
		if err := s.close(); err != nil {
			tb.Errorf("end %s of %s: %v", s.Unit, u.Name, err)
		}
	})
	return s
}

func (s *Session) open(h *Host) error {
	// Not by su, which answers SIGTERM after two seconds.
	s.leader = h.Command(Root, "systemd-run", "--pipe", "--wait", "--quiet", "--collect",
		"--property=User="+s.user.Name, "--property=PAMName=login", "--setenv=PATH="+os.Getenv("PATH"),
		// without a terminal pam_systemd would take the session for a background job's
		"--setenv=XDG_SESSION_CLASS=user", "--setenv=XDG_SESSION_TYPE=tty", "--", "sh")
	stdin, err := s.leader.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.leader.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	s.leader.Stderr = &stderr
	if err := s.leader.Start(); err != nil {
		return err
	}
	s.stdin = stdin
	var path string
	_, err = io.WriteString(stdin, leaderScript)
	if err == nil {
		_, err = fmt.Fscan(stdout, &s.ID, &path)
	}
	if err == nil {
		s.Group, err = bed.Directory(path) // a hybrid machine has it elsewhere
	}
	s.Unit = filepath.Base(path)
	if err == nil && s.Unit != "session-"+s.ID+".scope" {
		err = fmt.Errorf("no session (is libpam-systemd installed?): the leader is in %s", s.Group)
	}
	if err == nil {
		s.group, err = os.Open(s.Group)
	}
	if err != nil {
		closed := stdin.Close()
		ended := s.leader.Wait()
		return errors.Join(err, closed, ended, errors.New(stderr.String()))
	}
	return nil
}

// Command runs argv in the session: born in its scope, as its user, with the
// environment of a login.
func (s *Session) Command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(s.user.ManagerEnviron(), "XDG_SESSION_ID="+s.ID)
	cmd.Dir = s.user.Home
	cmd.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true,
		CgroupFD:    int(s.group.Fd()),
		Credential:  s.user.credential(),
	}
	return cmd
}

// Logout ends the leader, as leaving the shell does, and returns when logind knows.
// Other processes of the session go on, and so does the scope.
func (s *Session) Logout() error {
	if err := s.stdin.Close(); err != nil {
		return err
	}
	if err := s.leader.Wait(); err != nil {
		return err
	}
	return s.await("STATE=closing\n")
}

// Terminate asks logind to end the session with all that is in it. After Logout it
// has no effect (systemd 252): logind takes the session for one that ends anyway.
func (s *Session) Terminate() error {
	out, err := exec.Command("loginctl", "terminate-session", s.ID).CombinedOutput()
	if err != nil {
		return fmt.Errorf("loginctl terminate-session %s: %w: %s", s.ID, err, out)
	}
	return nil
}

// await returns when logind's file on the session has the line, or no longer exists: "" is for that.
func (s *Session) await(line string) error {
	var text []byte
	known := pace.Eventually(patience, func() bool {
		var err error
		text, err = os.ReadFile("/run/systemd/sessions/" + s.ID)
		return errors.Is(err, fs.ErrNotExist) || line != "" && strings.Contains(string(text), line)
	})
	if !known {
		return fmt.Errorf("session %s is still there: %s", s.ID, text)
	}
	return nil
}

// testerEnv has the directory of tester's session for the executions of a test binary in
// the host.
const testerEnv = "TESTHOST_TESTER"

// loginTester opens the session that is for Command, until end is called.
func loginTester() (end func(), err error) {
	s := &Session{user: Tester}
	if err := s.open(&Host{}); err != nil {
		return nil, err
	}
	// in our own group it would be a left-over of the tests
	if err := bed.Write(cgroup2()+"/init.scope/cgroup.procs", strconv.Itoa(s.leader.Process.Pid)); err != nil {
		return nil, err
	}
	return func() { _ = s.close() }, os.Setenv(testerEnv, s.Group) // with the host it ends at the latest
}

// TestersGroup is the directory of the session that Command starts tester's programs in; "" without one.
func TestersGroup() string { return os.Getenv(testerEnv) }

// testersGroup is that directory, opened once; nil without one.
var testersGroup = sync.OnceValue(func() *os.File {
	if TestersGroup() == "" {
		return nil
	}
	group, err := os.Open(TestersGroup())
	if err != nil {
		panic(fmt.Sprintf("host: the session of %s: %v", Tester.Name, err))
	}
	return group
})

func (s *Session) close() error {
	defer s.group.Close()
	_ = s.Terminate()   // the session may be over
	_ = s.stdin.Close() // Logout may have closed it
	err := errors.Join(bed.Kill(s.Group, patience), bed.WaitEmpty(s.Group, patience))
	_ = s.leader.Wait() // Logout may have waited
	return errors.Join(err, s.await(""))
}
