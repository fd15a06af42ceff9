// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package systemd starts transient scopes (systemd.scope(5), org.freedesktop.systemd1(5)), reads units, and
// writes to the journal.
//
// Every call is bounded: a dead or hanging bus is an error like any other. The package never reads the
// environment: SDKs pass neither XDG_RUNTIME_DIR nor DBUS_SESSION_BUS_ADDRESS to a server.
package systemd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Manager is a connection to one manager.
type Manager struct {
	conn   *dbus.Conn
	object dbus.BusObject
	gone   chan *dbus.Signal // JobRemoved
}

// Kind selects the system manager or the manager of a user.
type Kind string

const (
	System Kind = "system"
	User   Kind = "user"
)

const manager = "org.freedesktop.systemd1.Manager"

// Dial connects to the private socket of a manager that is Present. systemctl uses it as well. It needs no
// bus, and delivers signals without a match rule. All calls have to end within that time together.
func Dial(kind Kind, within time.Duration) (*Manager, error) {
	path := "/run/systemd/private"
	if kind == User {
		path = runtimeDir(os.Getuid()) + "/systemd/private"
	}
	deadline := time.Now().Add(within)
	c, err := (&net.Dialer{Deadline: deadline}).Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to the %s manager: %w", kind, err)
	}
	_ = c.SetDeadline(deadline) // a socket has deadlines; godbus ends all calls when a read fails
	conn, _ := dbus.NewConn(c)  // only an option can fail
	if err = checkPIDs(c); err == nil {
		err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	}
	if err != nil {
		_ = conn.Close() // and c
		return nil, fmt.Errorf("connect to the %s manager: %s: %w", kind, path, err)
	}
	m := &Manager{conn: conn, gone: make(chan *dbus.Signal, 64)}
	m.object = conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	conn.Signal(m.gone)
	return m, nil
}

func runtimeDir(uid int) string { return "/run/user/" + strconv.Itoa(uid) }

// checkPIDs refuses a manager in another pid namespace: there our pids denote other processes.
func checkPIDs(c net.Conn) error {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := cmp.Or(failed, err); err != nil {
		return fmt.Errorf("read the credentials of the manager: %w", err)
	}
	if peer.Pid == 0 {
		return fmt.Errorf("the manager is in another pid namespace: %w", errors.ErrUnsupported)
	}
	return nil
}

// Close closes the connection.
func (m *Manager) Close() { _ = m.conn.Close() } // no call is pending

// Own returns the kind of manager that starts units for this user: root uses the system manager.
func Own() Kind {
	if os.Getuid() == 0 {
		return System
	}
	return User
}

// Present checks, without a connection, whether there can be such a manager: systemd runs and, for a user
// manager, there is a runtime directory of this user.
func Present(kind Kind, uid int) error {
	if err := unix.Access("/run/systemd/system", unix.F_OK); err != nil { // sd_booted(3)
		return fmt.Errorf("this host was not booted with systemd: %w", errors.ErrUnsupported)
	}
	if kind == System {
		return nil
	}
	dir := runtimeDir(uid)
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("find the user manager: %s: %w", dir, err)
	}
	if int(st.Uid) != uid || st.Mode&unix.S_IFMT != unix.S_IFDIR { // its sockets are not those of our manager
		return fmt.Errorf("find the user manager: %s is not a directory of ours: %w", dir, unix.EPERM)
	}
	return nil
}

// UnitOf returns the unit of a process by its cgroup path, and the manager of the unit. Kind User stands for
// the manager of uid. ok is false outside any unit.
func UnitOf(path string, uid int) (unit string, kind Kind, ok bool) {
	kind = System
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case part == "user@"+strconv.Itoa(uid)+".service":
			unit, kind = "", User // the rest of the path belongs to the user manager
		case strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope"):
			unit = strings.TrimPrefix(part, "_") // before names that could collide with a controller's file
		case strings.HasSuffix(part, ".slice"):
		case unit != "":
			return unit, kind, true // a group below the unit
		}
	}
	return unit, kind, unit != ""
}

// UnitLetters are the characters of unit names, without the "@" of templates.
const UnitLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\"

// SlicePath returns the directory of a slice below that of its manager. Each dash is a level
// (systemd.slice(5)).
func SlicePath(slice string) string {
	if slice == "-.slice" {
		return ""
	}
	name, parts := strings.TrimSuffix(slice, ".slice"), ""
	for i, c := range name + "-" {
		if c == '-' && i > 0 {
			parts += name[:i] + ".slice/"
		}
	}
	return strings.TrimSuffix(parts, "/")
}
