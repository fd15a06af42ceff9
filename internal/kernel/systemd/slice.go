// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Slice describes a transient slice.
type Slice struct {
	Name        string // with ".slice"; never one that exists
	Description string
	Files       map[string]string // the files of its cgroup, and their values
}

// sliceProperties are those with one number, by the file of the cgroup that systemd writes it to.
var sliceProperties = map[string]string{
	"memory.max": "MemoryMax", "memory.high": "MemoryHigh",
	"memory.low": "MemoryLow", "memory.min": "MemoryMin",
	"memory.swap.max": "MemorySwapMax", "memory.zswap.max": "MemoryZSwapMax",
	"pids.max": "TasksMax", "cpu.weight": "CPUWeight", "io.weight": "IOWeight",
}

// infinity is how a manager encodes a limit that there is not: CGROUP_LIMIT_MAX.
const infinity = "18446744073709551615"

// ErrNoProperty is of a file that a manager can't set.
var ErrNoProperty = errors.New("systemd has no property for this file")

// StartSlice starts the slice. It stays active until StopUnit, also without a process. A manager that has
// no controller accepts a limit and does not apply it: read the files afterwards.
func (m *Manager) StartSlice(s Slice) error {
	properties := []dbus.Property{dbus.PropDescription(s.Description)}
	for file, value := range s.Files {
		limits, err := limitProperties(file, value)
		if err != nil {
			return fmt.Errorf("set %s=%s: %w", file, value, err)
		}
		properties = append(properties, limits...)
	}
	m.wake()
	var job godbus.ObjectPath
	call := m.object.Call(manager+".StartTransientUnit", 0,
		s.Name, "fail", properties, []dbus.PropertyCollection{})
	if err := call.Store(&job); err != nil {
		return fmt.Errorf("start %s: %w", s.Name, err)
	}
	return m.await(job)
}

// LimitSlice sets a limit of a transient slice until that stops.
func (m *Manager) LimitSlice(name, file, value string) error {
	properties, err := limitProperties(file, value)
	if err != nil {
		return fmt.Errorf("set %s=%s: %w", file, value, err)
	}
	m.wake()
	const untilItStops = true // "runtime"
	if err := m.object.Call(manager+".SetUnitProperties", 0, name, untilItStops, properties).Err; err != nil {
		return fmt.Errorf("set %s=%s of %s: %w", file, value, name, err)
	}
	return nil
}

// limitProperties are those that have a manager write a value to a file of a cgroup.
func limitProperties(file, value string) ([]dbus.Property, error) {
	if file == "cpu.max" {
		return quotaProperties(value)
	}
	name := sliceProperties[file]
	if value == "max" {
		value = infinity
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(value, "default "), 10, 64)
	if name == "" || err != nil {
		return nil, ErrNoProperty
	}
	return []dbus.Property{property(name, number)}, nil
}

// quotaProperties are for cpu.max, whose value is the quota and the period in microseconds.
func quotaProperties(value string) ([]dbus.Property, error) {
	if value == "max" || strings.HasPrefix(value, "max ") {
		return []dbus.Property{property("CPUQuotaPerSecUSec", uint64(math.MaxUint64))}, nil
	}
	var quota, period uint64
	n, _ := fmt.Sscan(value, &quota, &period) // n says how much could be read
	if n != 2 || period == 0 {
		return nil, ErrNoProperty
	}
	const second = 1_000_000
	return []dbus.Property{
		property("CPUQuotaPerSecUSec", quota*second/period), property("CPUQuotaPeriodUSec", period),
	}, nil
}

// StopUnit stops a unit, and returns when it has stopped.
func (m *Manager) StopUnit(name string) error {
	m.wake()
	var job godbus.ObjectPath
	if err := m.object.Call(manager+".StopUnit", 0, name, "replace").Store(&job); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return m.await(job)
}
