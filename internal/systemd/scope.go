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

// waitBound is how long a scope bound to a unit may take before it is asked whether that
// unit is being stopped: then the two wait for each other.
const waitBound = 250 * time.Millisecond

// ErrTransaction says that the scope can't be had together with what the manager is
// doing to the client's unit.
var ErrTransaction = errors.New("in conflict with a job of the client's unit")

// ErrRefused says that the manager has not got the unit, and will not. Another error may come from a manager that starts it yet.
var ErrRefused = errors.New("refused")

// ErrExists says that there is a unit of that name already.
var ErrExists = errors.New("it exists")

// Start starts the scope and returns when the process is in it. It gives up after
// within. The job mode is always "fail": "replace" would cancel a stop of the client's
// unit that is under way.
func (m *Manager) Start(s Scope, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := m.start(ctx, s.Name, s.Client, s.properties())
	if unknownProperty(err) {
		err = m.start(ctx, s.Name, s.Client, s.essential())
	}
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

// start starts a transient unit; client is as in Scope.
func (m *Manager) start(ctx context.Context, name, client string, properties []dbus.Property) error {
	var job godbus.ObjectPath
	aux := []dbus.PropertyCollection{}
	err := m.object.CallWithContext(ctx, manager+".StartTransientUnit", 0, name, "fail", properties, aux).Store(&job)
	if named(err, "org.freedesktop.systemd1.TransactionIsDestructive") {
		return fmt.Errorf("%w: %w", ErrTransaction, err)
	}
	if err != nil {
		return err
	}
	return m.await(ctx, client, job)
}

// await waits for the job's end: the reply alone comes before the process is in the
// scope half of the time.
func (m *Manager) await(ctx context.Context, client string, job godbus.ObjectPath) error {
	var bound <-chan time.Time
	if client != "" {
		ask := time.NewTicker(waitBound)
		defer ask.Stop()
		bound = ask.C
	}
	for {
		select {
		case sig, open := <-m.gone:
			if !open {
				return errors.New("the manager closed the connection")
			}
			if result, ours := removed(sig, job); ours {
				return jobError(result)
			}
		case <-bound:
			if !m.stopping(ctx, client) {
				continue // the manager is slow, no more
			}
			err := m.object.CallWithContext(ctx, manager+".CancelJob", 0, jobID(job)).Err
			if named(err, "org.freedesktop.systemd1.NoSuchJob") {
				continue // it has just ended, and word of that is on its way
			}
			if ctx.Err() != nil {
				return ctx.Err() // it answers nothing any more, and would not at the next try
			}
			return fmt.Errorf("%w: it waits for the stop of %s", ErrTransaction, client)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stopping tells whether a unit is being stopped, or has gone.
func (m *Manager) stopping(ctx context.Context, unit string) bool {
	state, err := m.unitProperty(ctx, unit, "org.freedesktop.systemd1.Unit", "ActiveState")
	return err != nil || state == "deactivating" || state == "inactive" || state == "failed"
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

func jobID(job godbus.ObjectPath) uint32 {
	var id uint32
	_, _ = fmt.Sscanf(string(job), "/org/freedesktop/systemd1/job/%d", &id) // 0 is no job
	return id
}

// essential are the properties without which a scope is no use; systemd has had them
// for as long as it has had delegation (218).
func (s Scope) essential() []dbus.Property {
	var pids []uint32
	for _, pid := range s.PIDs {
		pids = append(pids, uint32(pid))
	}
	return []dbus.Property{
		property("PIDs", pids),
		dbus.PropSlice(s.Slice),
		dbus.PropDescription(s.Description),
		property("Delegate", true),
		property("TimeoutStopUSec", uint64(s.TimeoutStop.Microseconds())),
	}
}

func (s Scope) properties() []dbus.Property {
	all := append(s.essential(),
		property("CollectMode", "inactive-or-failed"), // 236
		property("KillSignal", int32(s.KillSignal)),
	)
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

// unknownProperty recognises what older managers say of a property that they lack.
func unknownProperty(err error) bool {
	return named(err, "org.freedesktop.DBus.Error.PropertyReadOnly") || named(err, "org.freedesktop.DBus.Error.UnknownProperty") ||
		named(err, "org.freedesktop.DBus.Error.InvalidArgs")
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
