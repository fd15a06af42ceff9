// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Conn reads and changes the units of one manager, for the commands of people. go-systemd has the calls, and
// waits for jobs. It knows the bus and the socket of the system's manager alone, so it is given a connection
// here. A launcher has a [Manager] instead: go-systemd connects twice, and decodes each signal.
type Conn struct{ units *dbus.Conn }

// A manager that hangs must not make a command hang. A job may take as long as the unit's own timeouts.
const (
	readWithin   = 5 * time.Second
	reloadWithin = 3 * time.Minute // as systemctl daemon-reload
	jobWithin    = 15 * time.Minute
)

const systemBus = "/run/dbus/system_bus_socket"

// Connect connects to a manager. The system's has a socket for root alone; everyone else reaches it by the
// bus, and may only read there.
func Connect(kind Kind) (*Conn, error) {
	units, err := dbus.NewConnection(func() (*godbus.Conn, error) { return dialForUnits(kind) })
	if err != nil {
		return nil, err
	}
	return &Conn{units}, nil
}

func dialForUnits(kind Kind) (*godbus.Conn, error) {
	isBus := kind == System && os.Getuid() != 0
	path := socketOf(kind)
	if isBus {
		path = systemBus
	}
	c, err := connectTo(path, kind, time.Now().Add(readWithin))
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(readWithin)) // a socket has deadlines
	conn, _ := godbus.NewConn(c)                  // only an option can fail
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && isBus {
		err = conn.Hello()
	}
	if err != nil {
		_ = conn.Close() // and c
		return nil, cannotConnect(kind, fmt.Errorf("%s: %w", path, err))
	}
	_ = c.SetDeadline(time.Time{}) // each call has its own
	wake(conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1"))
	return conn, nil
}

// Close closes the connection.
func (c *Conn) Close() { c.units.Close() }

// UnitPath returns the directories in which the manager looks for units, the first one first.
func UnitPath(kind Kind) ([]string, error) {
	m, err := Dial(kind, readWithin)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	m.wake()
	var dirs []string
	call := m.object.Call("org.freedesktop.DBus.Properties.Get", 0, manager, "UnitPath")
	return dirs, call.Store(&dirs)
}

// properties reads all properties of a unit, and loads it if the manager has to.
func (c *Conn) properties(unit string) (properties, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	all, err := c.units.GetAllPropertiesContext(ctx, unit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", unit, err)
	}
	return all, nil
}

// RunningServices returns the names of the services that run.
func (c *Conn) RunningServices() (names []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	running, err := c.units.ListUnitsByPatternsContext(ctx, []string{"running"}, []string{"*.service"})
	if err != nil {
		return nil, fmt.Errorf("list the services: %w", err)
	}
	for _, unit := range running {
		names = append(names, unit.Name)
	}
	return names, nil
}

// Reload has the manager read changed files.
func (c *Conn) Reload() error {
	ctx, cancel := context.WithTimeout(context.Background(), reloadWithin)
	defer cancel()
	return c.units.ReloadContext(ctx)
}

// Enable has a unit start at the next boot.
func (c *Conn) Enable(unit string) error {
	ctx, cancel := context.WithTimeout(context.Background(), reloadWithin)
	defer cancel()
	const runtime, force = false, false
	_, _, err := c.units.EnableUnitFilesContext(ctx, []string{unit}, runtime, force)
	return err
}

// StartUnit starts a unit, and returns when it has started.
func (c *Conn) StartUnit(unit string) error { return c.awaitJob(c.units.StartUnitContext, unit) }

// StopUnit stops a unit, and returns when it has stopped.
func (c *Conn) StopUnit(unit string) error { return c.awaitJob(c.units.StopUnitContext, unit) }

// Restart starts a unit anew, also one that does not run.
func (c *Conn) Restart(unit string) error { return c.awaitJob(c.units.RestartUnitContext, unit) }

// ResetFailed has the manager forget that a unit has failed, and how often it was started.
func (c *Conn) ResetFailed(unit string) error {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	return c.units.ResetFailedUnitContext(ctx, unit)
}

// TryRestart starts a unit anew if it runs.
func (c *Conn) TryRestart(unit string) error { return c.awaitJob(c.units.TryRestartUnitContext, unit) }

type startJob func(ctx context.Context, unit, mode string, result chan<- string) (int, error)

// ErrJob is of a unit that did not get into the state that was asked for.
var ErrJob = errors.New("its job did not succeed")

func (c *Conn) awaitJob(start startJob, unit string) error {
	ctx, cancel := context.WithTimeout(context.Background(), jobWithin)
	defer cancel()
	results := make(chan string, 1)
	if _, err := start(ctx, unit, "replace", results); err != nil {
		return fmt.Errorf("%s: %w", unit, err)
	}
	select {
	case result := <-results:
		if result != "done" {
			return fmt.Errorf("%s: %w: %s", unit, ErrJob, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: the manager has not finished within %v", unit, jobWithin)
	}
}

func connectTo(path string, kind Kind, deadline time.Time) (net.Conn, error) {
	c, err := (&net.Dialer{Deadline: deadline}).Dial("unix", path)
	if err != nil {
		return nil, cannotConnect(kind, err)
	}
	if err = checkPIDs(c); err != nil {
		_ = c.Close()
		return nil, cannotConnect(kind, fmt.Errorf("%s: %w", path, err))
	}
	return c, nil
}
