// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"context"
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
	// TimeoutStop is from KillSignal to SIGKILL when the scope is stopped; systemd's own
	// default is 90 s.
	TimeoutStop time.Duration
	KillSignal  int
	// Client is a unit of the same manager: the scope is stopped after it, and with it
	// however it ends (BindsTo= and Before=). "" binds to nothing.
	Client string
	// Outlives leaves it at the order: the scope stays when the unit ends, and is stopped
	// after it where both are.
	Outlives bool
}

// ErrRefused says that the manager has not got the unit, and will not. Another error may come from a manager that starts it yet.
var ErrRefused = errors.New("refused")

// ErrExists says that there is a unit of that name already.
var ErrExists = errors.New("it exists")

// Start starts the scope and returns when the process is in it. It gives up after within.
//
// A scope with a client is started without its dependencies (job mode "ignore-dependencies"). BindsTo= is a Requires=, too, and would start a
// client again that has crashed meanwhile; and because of Before= the scope would wait for a stop of the client, which may itself wait for
// the server. BindsTo= holds all the same: systemd stops a scope that becomes active while its client is not (seen with 252). That
// would also end a server whose client is a scope that no manager has taken yet. So a client that is not running, or that the manager does
// not know, is no client.
func (m *Manager) Start(s Scope, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := m.startScope(ctx, s)
	var answer godbus.Error
	switch {
	case err == nil:
		return nil
	case named(err, "org.freedesktop.systemd1.UnitExists"):
		err = fmt.Errorf("%w: %w", ErrExists, err)
	case errors.As(err, &answer):
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fmt.Errorf("start %s: %w", s.Name, err)
}

func (m *Manager) startScope(ctx context.Context, s Scope) error {
	mode := failing
	if s.Client != "" {
		runs, err := m.readyFor(ctx, s)
		if err != nil {
			return err
		}
		if mode = "ignore-dependencies"; !runs {
			s.Client, mode = "", failing
		}
	}
	return m.start(ctx, s.Name, mode, s.properties())
}

// readyFor tells whether the client runs, and has the slice started, which a scope without its dependencies does not.
func (m *Manager) readyFor(ctx context.Context, s Scope) (bool, error) {
	m.hurry()
	asked := m.askState(ctx, s.Client)
	if err := m.object.CallWithContext(ctx, manager+".StartUnit", 0, s.Slice, failing).Err; err != nil {
		return false, fmt.Errorf("start %s: %w", s.Slice, err)
	}
	state, err := stateOf(s.Client, asked)
	return state != "inactive" && state != "failed", err
}

// Active tells whether a unit is active for its manager; one that it does not know is not. It gives up after within.
func (m *Manager) Active(unit string, within time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	state, err := stateOf(unit, m.askState(ctx, unit))
	return state == "active", err
}

func (m *Manager) askState(ctx context.Context, unit string) *godbus.Call {
	object := m.conn.Object(m.object.Destination(), unitPath+godbus.ObjectPath(dbus.PathBusEscape(unit)))
	return object.GoWithContext(ctx, properties+".Get", 0, nil, "org.freedesktop.systemd1.Unit", "ActiveState")
}

func stateOf(unit string, asked *godbus.Call) (any, error) {
	<-asked.Done
	var state godbus.Variant
	if err := asked.Store(&state); err != nil {
		return nil, fmt.Errorf("read the state of %s: %w", unit, err)
	}
	return state.Value(), nil
}

const unitPath = "/org/freedesktop/systemd1/unit/"

// failing is the job mode in which a start gives way to what the manager is doing already.
const failing = "fail"

// start starts a transient unit.
func (m *Manager) start(ctx context.Context, name, mode string, properties []dbus.Property) error {
	var job godbus.ObjectPath
	aux := []dbus.PropertyCollection{}
	if err := m.object.CallWithContext(ctx, manager+".StartTransientUnit", 0, name, mode, properties, aux).Store(&job); err != nil {
		return err
	}
	return m.await(ctx, job)
}

// await waits for the job's end: the reply alone comes before the process is in the
// scope half of the time.
func (m *Manager) await(ctx context.Context, job godbus.ObjectPath) error {
	for {
		select {
		case sig, open := <-m.gone:
			if !open {
				return errors.New("the manager closed the connection")
			}
			if result, ours := removed(sig, job); ours {
				return jobError(result)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// removed reads a JobRemoved(u id, o job, s unit, s result).
func removed(sig *godbus.Signal, job godbus.ObjectPath) (result string, ours bool) {
	if sig.Name != manager+".JobRemoved" || len(sig.Body) < 4 {
		return "", false
	}
	path, _ := sig.Body[1].(godbus.ObjectPath)
	result, _ = sig.Body[3].(string)
	return result, path == job
}

func jobError(result string) error {
	if result == "done" {
		return nil
	}
	return fmt.Errorf("%w: its job ended with %q", ErrRefused, result)
}

func (s Scope) properties() []dbus.Property {
	var pids []uint32
	for _, pid := range s.PIDs {
		pids = append(pids, uint32(pid))
	}
	all := []dbus.Property{
		property("PIDs", pids),
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

func named(err error, name string) bool {
	var e godbus.Error
	return errors.As(err, &e) && e.Name == name
}

// Attach puts processes into a subgroup of a unit, which the manager may do from where we may not: it
// asks the system's for what is outside of its own.
func (m *Manager) Attach(unit, subgroup string, pids []int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var all []uint32
	for _, pid := range pids {
		all = append(all, uint32(pid))
	}
	if err := m.object.CallWithContext(ctx, manager+".AttachProcessesToUnit", 0, unit, subgroup, all).Err; err != nil {
		return fmt.Errorf("attach to %s: %w", unit, err)
	}
	return nil
}
