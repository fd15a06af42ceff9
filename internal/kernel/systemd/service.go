// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// Service is a service as its manager has it. That may differ from its files.
type Service struct {
	Name        string   // the name of its unit file, also if it was asked for by an alias
	Fragment    string   // the path of its unit file
	DropIns     []string // paths, in the order in which they apply
	Outdated    bool     // its files have changed since the manager read them
	ActiveState string   // active, activating, inactive, failed, …
	SubState    string   // running, exited, …
	Result      string   // of its last run: success, exit-code, signal, …
	ExitStatus  int      // of its last main process: a status, or a signal
	Type        string
	User        string // of its processes; "" is the user of the manager
	DynamicUser bool
	Delegated   bool
	ReadOnly    bool       // its processes see the control groups read-only (ProtectControlGroups=)
	Calls       CallFilter // SystemCallFilter=
	AddressMost uint64     // the limit of its address space in bytes (LimitAS=), 0 without one
	MainPID     int        // 0 while it does not run
	Started     time.Time  // when the main process was started
	Invocation  string     // the id of its last start, as journalctl spells it
	Group       string     // the path of its control group, "" while it does not run
	Commands    [][]string // of ExecStart=, with specifiers and quotes resolved and variables as written
}

// CallFilter is a list of system calls. Its zero value allows all.
type CallFilter struct {
	AllowsOnly bool // the listed calls; otherwise all others
	Names      []string
}

// Allows reports whether processes of the service may use a system call.
func (f CallFilter) Allows(name string) bool {
	listed := slices.ContainsFunc(f.Names, func(entry string) bool {
		call, _, _ := strings.Cut(entry, ":") // the error that it returns
		return call == name
	})
	return listed == f.AllowsOnly
}

// callFilter decodes (bas).
func callFilter(property godbus.Variant) (f CallFilter) {
	if fields, _ := property.Value().([]any); len(fields) == 2 {
		f.AllowsOnly, _ = fields[0].(bool)
		f.Names, _ = fields[1].([]string)
	}
	return f
}

// ErrNoService is of a name without a unit file.
var ErrNoService = errors.New("the manager has no such service")

// Service loads a service, also one that does not run.
func (m *Manager) Service(name string) (Service, error) {
	s, err := m.service(name)
	if err != nil {
		return Service{}, fmt.Errorf("read %s: %w", name, err)
	}
	return s, nil
}

func (m *Manager) service(name string) (Service, error) {
	m.wake()
	var path godbus.ObjectPath
	if err := m.object.Call(manager+".LoadUnit", 0, name).Store(&path); err != nil {
		return Service{}, err
	}
	unit, err := m.properties(path, "Unit")
	if err != nil {
		return Service{}, err
	}
	switch state := text(unit["LoadState"]); state {
	case "loaded":
	case "not-found":
		return Service{}, ErrNoService
	default:
		return Service{}, fmt.Errorf("the manager cannot use its files: LoadState is %q", state)
	}
	service, err := m.properties(path, "Service")
	if err != nil {
		return Service{}, err
	}
	dropIns, _ := unit["DropInPaths"].Value().([]string)
	outdated, _ := unit["NeedDaemonReload"].Value().(bool)
	dynamic, _ := service["DynamicUser"].Value().(bool)
	delegated, _ := service["Delegate"].Value().(bool)
	readOnly, _ := service["ProtectControlGroups"].Value().(bool)
	exitStatus, _ := service["ExecMainStatus"].Value().(int32)
	mainPID, _ := service["MainPID"].Value().(uint32)
	started, _ := service["ExecMainStartTimestamp"].Value().(uint64)
	addressMost, _ := service["LimitAS"].Value().(uint64)
	if addressMost == math.MaxUint64 { // infinity
		addressMost = 0
	}
	invocation, _ := unit["InvocationID"].Value().([]byte)
	return Service{
		Name:        text(unit["Id"]),
		Fragment:    text(unit["FragmentPath"]),
		DropIns:     dropIns,
		Outdated:    outdated,
		ActiveState: text(unit["ActiveState"]),
		SubState:    text(unit["SubState"]),
		Result:      text(service["Result"]),
		ExitStatus:  int(exitStatus),
		Type:        text(service["Type"]),
		User:        text(service["User"]),
		DynamicUser: dynamic,
		Delegated:   delegated,
		ReadOnly:    readOnly,
		Calls:       callFilter(service["SystemCallFilter"]),
		AddressMost: addressMost,
		MainPID:     int(mainPID),
		Started:     time.UnixMicro(int64(started)),
		Invocation:  hex.EncodeToString(invocation),
		Group:       text(service["ControlGroup"]),
		Commands:    commands(service["ExecStart"]),
	}, nil
}

func (m *Manager) properties(unit godbus.ObjectPath, of string) (all map[string]godbus.Variant, err error) {
	call := m.conn.Object(m.object.Destination(), unit).Call(
		"org.freedesktop.DBus.Properties.GetAll", 0, "org.freedesktop.systemd1."+of)
	err = call.Store(&all)
	return all, err
}

// text is "" for a property that this version of systemd does not have.
func text(property godbus.Variant) string {
	s, _ := property.Value().(string)
	return s
}

// commands decodes a(sasbttttuii): the path, the arguments, and how the command ended.
func commands(property godbus.Variant) (all [][]string) {
	list, _ := property.Value().([][]any)
	for _, command := range list {
		if len(command) < 2 {
			continue
		}
		argv, _ := command[1].([]string)
		all = append(all, argv)
	}
	return all
}
