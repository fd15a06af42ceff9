// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package systemd asks a service manager for transient scopes (systemd.scope(5),
// org.freedesktop.systemd1(5)).
//
// Every exchange is bounded: a dead or a hanging bus is an error like any other. The
// package never reads or changes the environment (SDKs pass neither XDG_RUNTIME_DIR nor
// DBUS_SESSION_BUS_ADDRESS to a server, and what a server gets is not ours to change),
// and knows nothing of groups, guards or MCP.
package systemd

import (
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

// Kind tells the two managers apart.
type Kind string

const (
	System Kind = "system"
	User   Kind = "user"
)

// socket is a way to a manager. The private ones reach it directly, without a bus, and
// send their signals unasked.
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

// checkRuntimeDir: a socket in a directory that another user made is not our manager's.
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
	_ = c.SetDeadline(time.Time{}) // it is alive; what it is asked has a limit of its own
	return m, nil
}

// checkPIDs refuses a manager of another pid namespace, which has no number in ours: a pid that it is told is somebody else's there.
func checkPIDs(c net.Conn) error {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return fmt.Errorf("ask who listens: %w", err)
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

// Close ends the connection.
func (m *Manager) Close() {
	_ = m.conn.Close() // nothing is under way any more
	m.cancel()
}

// Own is the kind of manager that starts things for this user: root has the system's.
func Own() Kind {
	if os.Getuid() == 0 {
		return System
	}
	return User
}

// Present tells cheaply whether there may be such a manager: systemd runs, and the
// user's has a runtime directory.
func Present(kind Kind, uid int) error {
	if err := unix.Access("/run/systemd/system", unix.F_OK); err != nil { // sd_booted(3)
		return fmt.Errorf("this host was not booted with systemd: %w", errors.ErrUnsupported)
	}
	if kind == User {
		return checkRuntimeDir(uid)
	}
	return nil
}
