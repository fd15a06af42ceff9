// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// A Service says what a transient service runs, e.g. a gateway. Unless Properties
// say otherwise it has Delegate=yes and no limit on starts (systemd's is 5 in 10 s).
type Service struct {
	User       User     // whose manager runs it; root's is the system manager
	Properties []string // such as "KillMode=mixed"; to run as someone else: "User=tester"
	Argv       []string
	// Unit is its name without ".service"; a new one is made up when it is empty.
	Unit string
}

// A Unit is a running service.
type Unit struct {
	Name string

	host     *Host
	user     User
	restarts int           // systemd's own, before the last Crash
	client   *exec.Cmd     // systemd-run --wait
	ended    chan struct{} // closed when client has ended: systemd calls the unit inactive or failed
	log      strings.Builder
}

var units atomic.Int32

// Start returns when systemd has started the service: with Type=exec, the default
// here, when its command has been executed. What is left of it at the end of the
// test is killed.
func (h *Host) Start(tb testing.TB, s Service) *Unit {
	tb.Helper()
	if s.Unit == "" {
		s.Unit = fmt.Sprintf("test-%d-%d", os.Getpid(), units.Add(1))
	}
	u := &Unit{Name: s.Unit + ".service", host: h, user: s.User, ended: make(chan struct{})}
	if err := u.start(s); err != nil {
		tb.Fatalf("start %s: %v", u.Name, err)
	}
	tb.Cleanup(func() {
		if err := u.clear(); err != nil {
			tb.Errorf("clear %s: %v", u.Name, err)
		}
	})
	return u
}

// args are systemd-run's.
func (s Service) args() []string {
	argv := []string{"--wait", "--unit=" + s.Unit, "--service-type=exec",
		"--property=Delegate=yes", "--property=StartLimitIntervalSec=0"}
	for _, p := range s.Properties {
		argv = append(argv, "--property="+p)
	}
	argv = append(argv, "--")
	for _, arg := range s.Argv {
		argv = append(argv, literal(arg))
	}
	return argv
}

// literal keeps systemd from expanding variables in an argument of a service.
func literal(arg string) string { return strings.ReplaceAll(arg, "$", "$$") }

func (u *Unit) start(s Service) error {
	u.client = u.host.Manage(s.User, "systemd-run", s.args()...)
	stderr, err := u.client.StderrPipe()
	if err != nil {
		return err
	}
	if err := u.client.Start(); err != nil {
		return err
	}
	r := bufio.NewReader(stderr)
	line, err := r.ReadString('\n')
	go u.follow(r)
	if err == nil && strings.HasPrefix(line, "Running as unit") {
		return u.awaitJob()
	}
	<-u.ended
	return fmt.Errorf("%s%s", line, u.log.String())
}

// awaitJob waits until it is started: some versions of systemd-run say before that that it runs.
func (u *Unit) awaitJob() error {
	for deadline := pace.Now().Add(patience); ; { // the bus has an event, and no tool that waits for it
		job, err := u.Property("Job")
		if err != nil || job == "" || job == "0" {
			return err
		}
		if pace.Until(deadline) <= 0 {
			return fmt.Errorf("job %s has not ended", job)
		}
	}
}

// follow ends with systemd-run.
func (u *Unit) follow(stderr io.Reader) {
	defer close(u.ended)
	_, _ = io.Copy(&u.log, stderr) // to its end
	_ = u.client.Wait()            // the unit's end, told by its properties
}

// Control runs systemctl of the unit's manager on the unit and returns its output.
func (u *Unit) Control(verb string, args ...string) (string, error) {
	cmd := u.host.Manage(u.user, "systemctl", append(append([]string{verb}, args...), u.Name)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Property is what systemctl show says.
func (u *Unit) Property(name string) (string, error) {
	return u.Control("show", "--value", "--property="+name)
}

// MainPID is 0 while the service has no process.
func (u *Unit) MainPID() (int, error) { return u.number("MainPID") }

func (u *Unit) number(property string) (int, error) {
	text, err := u.Property(property)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// Group is the directory of its control group.
func (u *Unit) Group() (string, error) {
	path, err := u.Property("ControlGroup")
	if err == nil && path == "" {
		err = fmt.Errorf("%s has no control group", u.Name)
	}
	return filepath.Join(hierarchy, path), err
}

// Stop returns when the unit has stopped.
func (u *Unit) Stop() error {
	_, err := u.Control("stop")
	return err
}

// Restart returns when the service has been started again.
func (u *Unit) Restart() error {
	_, err := u.Control("restart")
	return err
}

// Crash kills the main process, and returns when it is dead. By then systemd has
// the news before it reads any request that is made later.
func (u *Unit) Crash() error {
	pid, err := u.MainPID()
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open of main process %d: %w", pid, err)
	}
	defer unix.Close(pidfd)
	// Only if systemd has not reaped it yet can no other process have got its pid.
	if again, err := u.MainPID(); err != nil || again != pid {
		return errors.Join(err, fmt.Errorf("main process %d ended by itself", pid))
	}
	if u.restarts, err = u.number("NRestarts"); err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill main process %d: %w", pid, err)
	}
	if !awaitExit(pidfd, patience) {
		return fmt.Errorf("main process %d lives %v after SIGKILL", pid, patience)
	}
	return nil
}

// AwaitRestart returns when systemd has started the service again by itself, after
// Crash and by Restart=: a start job waits for that.
func (u *Unit) AwaitRestart() error {
	if _, err := u.Control("start"); err != nil {
		return err
	}
	n, err := u.number("NRestarts")
	if err == nil && n <= u.restarts {
		err = fmt.Errorf("it was us who started %s again, not its Restart=", u.Name)
	}
	return err
}

// Await returns, with the unit's Result, when it is inactive or failed and no job
// will change that.
func (u *Unit) Await(limit time.Duration) (result string, err error) {
	timeout, cancel := pace.Context(limit)
	defer cancel()
	select {
	case <-u.ended:
		return u.result(), nil
	case <-timeout.Done():
		state, _ := u.Control("status", "--no-pager") // it says what it is, or nothing
		return "", fmt.Errorf("%s has not ended after %v\n%s", u.Name, limit, state)
	}
}

// result reads what systemd-run said at the end: the unit may be gone by now.
func (u *Unit) result() string {
	for line := range strings.Lines(u.log.String()) {
		if result, ok := strings.CutPrefix(strings.TrimSpace(line), "Finished with result: "); ok { // indented since 262
			return result
		}
	}
	return "unknown: " + u.log.String()
}

// clear leaves no process and no failed unit behind.
func (u *Unit) clear() error {
	state, err := u.Property("ActiveState") // inactive for one that is gone
	if err != nil {
		return err
	}
	if state != "inactive" && state != "failed" {
		_, _ = u.Control("kill", "--signal=KILL") // between two starts it has no process
		if err = u.Stop(); err != nil && u.forgotten() {
			err = nil // it has ended of the kill
		}
	}
	_, late := u.Await(patience)
	_, _ = u.Control("reset-failed") // only a failed unit can be
	return errors.Join(err, late)
}

// forgotten tells whether the manager knows nothing of the unit any more.
func (u *Unit) forgotten() bool {
	state, err := u.Property("LoadState")
	return err == nil && state == "not-found"
}

// StopUnits ends units of a user's manager and what is in them; there may be none any more.
func StopUnits(t *testing.T, u User, units ...string) {
	t.Helper()
	if out, err := Current(t).Manage(u, "systemctl", append([]string{"stop"}, units...)...).CombinedOutput(); err != nil && !strings.Contains(string(out), "not loaded") {
		t.Errorf("stop %v: %v: %s", units, err, out)
	}
}
