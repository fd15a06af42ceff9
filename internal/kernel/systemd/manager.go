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
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Manager is a connection to one manager.
type Manager struct {
	conn   *dbus.Conn
	object dbus.BusObject
	gone   chan *dbus.Signal // JobRemoved
	cancel context.CancelFunc
}

// Kind selects the system manager or the manager of a user.
type Kind string

const (
	System Kind = "system"
	User   Kind = "user"
)

// socket is a socket of a manager. The private sockets lead to it directly, without a bus, and deliver
// signals without a match rule.
type socket struct {
	path string
	bus  bool
}

// sockets of a manager, the fastest first.
func sockets(kind Kind, uid int) []socket {
	if kind == System {
		return []socket{{"/run/systemd/private", false}, {"/run/dbus/system_bus_socket", true}}
	}
	dir := "/run/user/" + strconv.Itoa(uid)
	return []socket{{dir + "/systemd/private", false}, {dir + "/bus", true}}
}

// Dial connects to a manager, and gives up after within.
func Dial(kind Kind, within time.Duration) (*Manager, error) {
	uid := os.Getuid()
	if kind == User {
		if err := checkRuntimeDir(uid); err != nil {
			return nil, err
		}
	}
	deadline := time.Now().Add(within)
	var errs []error
	for _, s := range sockets(kind, uid) {
		m, err := dial(s, uid, deadline)
		if err == nil {
			return m, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("connect to the %s manager: %w", kind, errors.Join(errs...))
}

// checkRuntimeDir refuses a directory of another user: its sockets are not those of our manager.
func checkRuntimeDir(uid int) error {
	dir := "/run/user/" + strconv.Itoa(uid)
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("find the user manager: %s: %w", dir, err)
	}
	if int(st.Uid) != uid || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("find the user manager: %s is not a directory of ours: %w", dir, unix.EPERM)
	}
	return nil
}

func dial(s socket, uid int, deadline time.Time) (*Manager, error) {
	c, err := (&net.Dialer{Deadline: deadline}).Dial("unix", s.path)
	if err != nil {
		return nil, err
	}
	if err := checkPIDs(c); err != nil {
		_ = c.Close() // nothing was written
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	_ = c.SetDeadline(deadline) // a socket has deadlines
	ctx, cancel := context.WithCancel(context.Background())
	m := &Manager{cancel: cancel, gone: make(chan *dbus.Signal, 64)}
	if m.conn, err = dbus.NewConn(c, dbus.WithContext(ctx)); err == nil {
		err = m.greet(s, uid)
	}
	if err != nil {
		cancel()
		_ = c.Close() // closed with the connection, if there is one
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	_ = c.SetDeadline(time.Time{}) // from here on each call has its own limit
	return m, nil
}

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

func (m *Manager) greet(s socket, uid int) error {
	if err := m.conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(uid))}); err != nil {
		return err
	}
	m.object = m.conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	m.conn.Signal(m.gone)
	if !s.bus {
		return nil // no Hello on a private socket
	}
	if err := m.conn.Hello(); err != nil {
		return err
	}
	err := m.conn.AddMatchSignal(dbus.WithMatchInterface(manager), dbus.WithMatchMember("JobRemoved"))
	if err != nil {
		return err
	}
	return m.object.Call(manager+".Subscribe", 0).Err
}

const manager = "org.freedesktop.systemd1.Manager"

// Close closes the connection.
func (m *Manager) Close() {
	_ = m.conn.Close() // no call is pending
	m.cancel()
}

// Own returns the kind of manager that starts units for this user: root uses the system manager.
func Own() Kind {
	if os.Getuid() == 0 {
		return System
	}
	return User
}

// Present checks, without a connection, whether there can be such a manager: systemd runs and, for a user
// manager, there is a runtime directory.
func Present(kind Kind, uid int) error {
	if err := unix.Access("/run/systemd/system", unix.F_OK); err != nil { // sd_booted(3)
		return fmt.Errorf("this host was not booted with systemd: %w", errors.ErrUnsupported)
	}
	if kind == User {
		return checkRuntimeDir(uid)
	}
	return nil
}
