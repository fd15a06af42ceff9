// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"context"
	"fmt"

	godbus "github.com/godbus/dbus/v5"
)

const properties = "org.freedesktop.DBus.Properties"

// Version is what the manager says of itself, e.g. "252.38-1~deb12u1". It is to be
// asked before any property.
func (m *Manager) Version(ctx context.Context) (string, error) {
	m.hurry()
	value, err := get(ctx, m.object, manager, "Version")
	text, ok := value.(string)
	if err == nil && !ok {
		err = fmt.Errorf("read Version: it is a %T", value)
	}
	return text, err
}

// hurry has a short first message answered. systemd (252) reads up to 256 bytes of a private connection's handshake at once, and
// forgets what of them is the first message until more arrives. A question is as
// short as that, and would have no answer; what comes before it makes it arrive.
func (m *Manager) hurry() {
	m.object.Go("org.freedesktop.DBus.Peer.Ping", godbus.FlagNoReplyExpected, nil)
}

// ServiceProperty reads a property of a service that the manager has loaded.
func (m *Manager) ServiceProperty(ctx context.Context, unit, name string) (any, error) {
	return m.unitProperty(ctx, unit, "org.freedesktop.systemd1.Service", name)
}

func (m *Manager) unitProperty(ctx context.Context, unit, of, name string) (any, error) {
	var path godbus.ObjectPath
	if err := m.object.CallWithContext(ctx, manager+".GetUnit", 0, unit).Store(&path); err != nil {
		return nil, fmt.Errorf("find %q: %w", unit, err)
	}
	return get(ctx, m.conn.Object(m.object.Destination(), path), of, name)
}

func get(ctx context.Context, object godbus.BusObject, of, name string) (any, error) {
	var value godbus.Variant
	if err := object.CallWithContext(ctx, properties+".Get", 0, of, name).Store(&value); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return value.Value(), nil
}

// Service is what a manager knows of a service.
type Service struct {
	// State is LoadState: "loaded", "not-found", "masked" …
	State string
	// Stale says that files of the unit have changed since the manager has read them.
	Stale bool
	// Start are the commands of ExecStart=.
	Start []Command
	// Identifier is SyslogIdentifier=, or "".
	Identifier string
}

// Command is one of a service, with specifiers replaced and variables not.
type Command struct {
	Path  string
	Argv  []string
	Flags []string // "ignore-failure", "no-env-expand" …
}

// Service reads a service, which the manager loads for that if it has to.
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
