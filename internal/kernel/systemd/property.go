// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"context"
	"fmt"

	godbus "github.com/godbus/dbus/v5"
)

const properties = "org.freedesktop.DBus.Properties"

// Version returns the version of the manager, e.g. "252.38-1~deb12u1". It must be called before any property
// is read.
func (m *Manager) Version(ctx context.Context) (string, error) {
	m.hurry()
	return read[string](ctx, m.object, manager, "Version")
}

// hurry makes the manager answer a short first message. systemd 252 reads up to 256 bytes of a private
// connection's handshake at once. It processes a first message among them only when more data arrives.
func (m *Manager) hurry() {
	m.object.Go("org.freedesktop.DBus.Peer.Ping", godbus.FlagNoReplyExpected, nil)
}

// ServiceProperty reads a property of a service that the manager has loaded.
func (m *Manager) ServiceProperty(ctx context.Context, unit, name string) (any, error) {
	var path godbus.ObjectPath
	if err := m.object.CallWithContext(ctx, manager+".GetUnit", 0, unit).Store(&path); err != nil {
		return nil, fmt.Errorf("find %q: %w", unit, err)
	}
	return get(ctx, m.conn.Object(m.object.Destination(), path), "org.freedesktop.systemd1.Service", name)
}

func get(ctx context.Context, object godbus.BusObject, of, name string) (any, error) {
	var value godbus.Variant
	if err := object.CallWithContext(ctx, properties+".Get", 0, of, name).Store(&value); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return value.Value(), nil
}

// Service contains properties of a service.
type Service struct {
	// State is LoadState: "loaded", "not-found", "masked" …
	State string
	// Stale: files of the unit have changed since the manager read them.
	Stale      bool
	Start      []Command // ExecStart=
	Identifier string    // SyslogIdentifier=, or ""
}

// Command is a command of a service. Its specifiers are replaced, its variables are not.
type Command struct {
	Path  string
	Argv  []string
	Flags []string // "ignore-failure", "no-env-expand" …
}

// Service reads a service; the manager loads it if necessary.
func (m *Manager) Service(ctx context.Context, unit string) (s Service, err error) {
	if _, err := m.Version(ctx); err != nil {
		return s, err
	}
	var path godbus.ObjectPath
	if err := m.object.CallWithContext(ctx, manager+".LoadUnit", 0, unit).Store(&path); err != nil {
		return s, fmt.Errorf("find %q: %w", unit, err)
	}
	object := m.conn.Object(m.object.Destination(), path)
	const ofUnit, ofService = "org.freedesktop.systemd1.Unit", "org.freedesktop.systemd1.Service"
	if s.State, err = read[string](ctx, object, ofUnit, "LoadState"); err != nil || s.State != "loaded" {
		return s, err
	}
	if s.Stale, err = read[bool](ctx, object, ofUnit, "NeedDaemonReload"); err != nil {
		return s, err
	}
	if s.Identifier, err = read[string](ctx, object, ofService, "SyslogIdentifier"); err != nil {
		return s, err
	}
	commands, err := read[[][]any](ctx, object, ofService, "ExecStartEx")
	for _, c := range commands {
		if len(c) < 3 {
			return s, fmt.Errorf("read ExecStartEx: a command has %d fields", len(c))
		}
		path, isPath := c[0].(string)
		argv, isArgv := c[1].([]string)
		flags, isFlags := c[2].([]string)
		if !isPath || !isArgv || !isFlags || len(argv) == 0 {
			return s, fmt.Errorf("read ExecStartEx: a command is %T, %T, %T", c[0], c[1], c[2])
		}
		s.Start = append(s.Start, Command{path, argv, flags})
	}
	return s, err
}

func read[T any](ctx context.Context, object godbus.BusObject, of, name string) (T, error) {
	value, err := get(ctx, object, of, name)
	typed, ok := value.(T)
	if err == nil && !ok {
		err = fmt.Errorf("read %s: it is a %T", name, value)
	}
	return typed, err
}
