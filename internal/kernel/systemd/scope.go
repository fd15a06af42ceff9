// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Scope describes a transient scope.
type Scope struct {
	Name        string // with ".scope"; never one that exists
	Slice       string
	Description string
	PIDs        []int // the processes that are put into it
	// TimeoutStop is from KillSignal to SIGKILL when the scope is stopped; systemd's default is 90 s.
	TimeoutStop time.Duration
	KillSignal  int
	// Client is a unit of the same manager, or "". The scope is stopped after it, and also when it ends
	// by itself (BindsTo= and Before=).
	Client string
	// Outlives: only the order applies (Before=), so the scope stays when Client ends.
	Outlives bool
}

// ErrRefused: the manager does not have the unit, and will not start it later. After another error it may.
var ErrRefused = errors.New("refused")

// Start starts the scope and returns when the process is in it.
//
// A scope with a client is started without its dependencies (job mode "ignore-dependencies"). BindsTo=
// implies Requires=, which would restart a client that has crashed meanwhile. Before= would make the scope
// wait for a stop of the client, which may itself wait for the server. BindsTo= still works: systemd stops a
// scope that becomes active while its client is inactive (seen with 252). It also does so while the client is
// a scope that the manager has not started yet. So Client is ignored if it does not run, or if the manager
// does not know it.
func (m *Manager) Start(s Scope) error {
	err := m.startScope(s)
	if _, answered := errors.AsType[godbus.Error](err); answered {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		err = fmt.Errorf("start %s: %w", s.Name, err)
	}
	return err
}

func (m *Manager) startScope(s Scope) error {
	mode := "fail"
	if s.Client != "" {
		runs, err := m.readyFor(s)
		if err != nil {
			return err
		}
		if runs {
			mode = "ignore-dependencies"
		} else {
			s.Client = ""
		}
	}
	var job godbus.ObjectPath
	call := m.object.Call(manager+".StartTransientUnit", 0,
		s.Name, mode, s.properties(), []dbus.PropertyCollection{})
	if err := call.Store(&job); err != nil {
		return err
	}
	return m.await(job)
}

// readyFor reports whether the client runs. It starts the slice, which a scope without dependencies does not.
func (m *Manager) readyFor(s Scope) (bool, error) {
	// systemd 252 reads up to 256 bytes of a private connection's handshake at once. It processes a first
	// message among them only when more data arrives.
	m.object.Go("org.freedesktop.DBus.Peer.Ping", godbus.FlagNoReplyExpected, nil)
	if err := m.object.Call(manager+".StartUnit", 0, s.Slice, "fail").Err; err != nil {
		return false, fmt.Errorf("start %s: %w", s.Slice, err)
	}
	state, err := m.get(s.Client, "Unit", "ActiveState")
	return state != "inactive" && state != "failed", err
}

// ControlGroup returns the path of a scope in the cgroup hierarchy.
func (m *Manager) ControlGroup(scope string) (string, error) {
	return m.get(scope, "Scope", "ControlGroup")
}

// get reads a property of a unit, which is a text.
func (m *Manager) get(unit, of, property string) (text string, err error) {
	path := godbus.ObjectPath("/org/freedesktop/systemd1/unit/" + dbus.PathBusEscape(unit))
	call := m.conn.Object(m.object.Destination(), path).Call(
		"org.freedesktop.DBus.Properties.Get", 0, "org.freedesktop.systemd1."+of, property)
	if err := call.Store(&text); err != nil {
		return "", fmt.Errorf("read the state of %s: %w", unit, err)
	}
	return text, nil
}

// await waits for the end of the job: in half of all cases, the reply alone arrives before the process is in
// the scope.
func (m *Manager) await(job godbus.ObjectPath) error {
	for sig := range m.gone {
		// JobRemoved(u id, o job, s unit, s result)
		if sig.Name != manager+".JobRemoved" || len(sig.Body) < 4 || sig.Body[1] != job {
			continue
		}
		if result := sig.Body[3]; result != "done" {
			return fmt.Errorf("%w: its job ended with %q", ErrRefused, result)
		}
		return nil
	}
	return errors.New("the manager closed the connection, or does not answer")
}

func (s Scope) properties() []dbus.Property {
	all := []dbus.Property{
		property("PIDs", unsigned(s.PIDs)),
		dbus.PropSlice(s.Slice),
		dbus.PropDescription(s.Description),
		property("Delegate", true),
		property("TimeoutStopUSec", uint64(s.TimeoutStop.Microseconds())),
		property("CollectMode", "inactive-or-failed"),
		property("KillSignal", int32(s.KillSignal)),
	}
	if s.Client != "" {
		all = append(all, dbus.PropBefore(s.Client))
	}
	if s.Client != "" && !s.Outlives {
		all = append(all, dbus.PropBindsTo(s.Client))
	}
	return all
}

func property(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}

func unsigned(pids []int) (all []uint32) {
	for _, pid := range pids {
		all = append(all, uint32(pid))
	}
	return all
}

// Attach moves processes into a subgroup of a unit. A user manager asks the system manager for processes
// outside its own cgroup, which the user cannot move.
func (m *Manager) Attach(unit, subgroup string, pids []int) error {
	call := m.object.Call(manager+".AttachProcessesToUnit", 0, unit, subgroup, unsigned(pids))
	if call.Err != nil {
		return fmt.Errorf("attach to %s: %w", unit, call.Err)
	}
	return nil
}
