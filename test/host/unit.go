// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
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
	restarts int // systemd's own, before the last Crash
}

var units atomic.Int32

// Start returns when systemd has started the service: with Type=exec, the default here, when its command has
// been executed. The end of the test kills its processes.
func (h *Host) Start(tb testing.TB, s Service) *Unit {
	tb.Helper()
	if s.Unit == "" {
		s.Unit = fmt.Sprintf("test-%d-%d", os.Getpid(), units.Add(1))
	}
	u := &Unit{Name: s.Unit + ".service", host: h, user: s.User}
	tb.Cleanup(func() {
		_, _ = u.Control("kill", "--signal=KILL") // it may have no process, or not be there
		StopUnits(tb, u.user, u.Name)
		_, _ = u.Control("reset-failed") // only a failed unit can be
	})
	Must(tb, h.Manage(s.User, "systemd-run", s.args()...))
	return u
}

// args are systemd-run's.
func (s Service) args() []string {
	argv := []string{"--quiet", "--unit=" + s.Unit, "--service-type=exec",
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

// Control runs systemctl of the unit's manager on the unit and returns its output.
func (u *Unit) Control(verb string, args ...string) (string, error) {
	cmd := u.host.Manage(u.user, "systemctl", append(append([]string{verb}, args...), u.Name)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Property is the value in systemctl show.
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
	ended := func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
		return n > 0
	}
	if !pace.Eventually(patience, ended) {
		return fmt.Errorf("main process %d outlives SIGKILL", pid)
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

// Await returns, with the unit's Result, when it is inactive or failed. One that has succeeded is forgotten
// then.
func (u *Unit) Await(limit time.Duration) (result string, err error) {
	var state string
	ended := pace.Eventually(limit, func() bool {
		state, err = u.Property("ActiveState")
		return err != nil || state == "inactive" || state == "failed"
	})
	if !ended || err != nil {
		return "", fmt.Errorf("%s is %s after %v, %v", u.Name, state, limit, err)
	}
	return u.Property("Result")
}

// StopUnits stops units of a user's manager with their processes; they may have stopped already.
func StopUnits(tb testing.TB, u User, units ...string) {
	tb.Helper()
	out, err := Current(tb).Manage(u, "systemctl", append([]string{"stop"}, units...)...).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "not loaded") {
		tb.Errorf("stop %v: %v: %s", units, err, out)
	}
}
