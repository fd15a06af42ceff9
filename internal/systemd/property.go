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
	// systemd (252) reads up to 256 bytes of a private connection's handshake at once, and
	// forgets what of them is the first message until more arrives. A question is as
	// short as that, and would have no answer; what comes before it makes it arrive.
	m.object.Go("org.freedesktop.DBus.Peer.Ping", godbus.FlagNoReplyExpected, nil)
	value, err := get(ctx, m.object, manager, "Version")
	text, ok := value.(string)
	if err == nil && !ok {
		err = fmt.Errorf("read Version: it is a %T", value)
	}
	return text, err
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
