// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Unit is a unit as its manager has it. That may differ from its files.
type Unit struct {
	Name        string   // that of its file, also if it was asked for by an alias
	Fragment    string   // the path of its file, "" without one
	DropIns     []string // paths, in the order in which they apply
	Outdated    bool     // its files have changed since the manager read them
	ActiveState string   // active, activating, inactive, failed, …
	SubState    string   // running, exited, auto-restart, …
	Invocation  string   // the id of its last start, as journalctl spells it
}

// Service is a service as its manager has it.
type Service struct {
	Unit
	Settings Settings
	Process  MainProcess
	Commands []Command // of ExecStart=
}

// Settings are those of [Service], with the defaults of the manager.
type Settings struct {
	Type        string
	KillMode    string
	TimeoutStop time.Duration // 0 for infinity
	User        string        // of its processes; "" is the user of the manager
	DynamicUser bool
	PAM         string // the PAM service that opens a session for it (PAMName=), or ""
	Delegated   bool
	ReadOnly    bool       // its processes see the control groups read-only (ProtectControlGroups=)
	Calls       CallFilter // SystemCallFilter=
	AddressMost uint64     // the limit of its address space in bytes (LimitAS=), 0 without one
	Identifier  string     // SyslogIdentifier=
	Outputs     []string   // of its stdout and its stderr: journal, file, inherit, …
	// OnGroup are the settings that act on its control group, and so on no process outside of that.
	OnGroup []string
}

// MainProcess is the main process of a service, or the last one.
type MainProcess struct {
	PID        int // 0 while the service does not run
	Started    time.Time
	Group      string // the path of the unit's control group, "" while it does not run
	Result     string // of the last run: success, exit-code, signal, …
	ExitStatus int    // a status, or a signal
}

// Command is a command as a manager executes it: without quotes and specifiers, with variables as written.
type Command struct {
	Program string
	Argv    []string
	Flags   []string // ignore-failure, privileged, no-setuid, no-env-expand, …
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

// ErrNoUnit is of a name without a unit file.
var ErrNoUnit = errors.New("there is no such unit")

// Unit reads a unit, also one that does not run.
func (c *Conn) Unit(name string) (Unit, error) {
	all, err := c.properties(name)
	if err != nil {
		return Unit{}, err
	}
	return all.unit(name)
}

// Service reads a service, also one that does not run.
func (c *Conn) Service(name string) (Service, error) {
	all, err := c.properties(name)
	if err != nil {
		return Service{}, err
	}
	unit, err := all.unit(name)
	if err != nil {
		return Service{}, err
	}
	defaultTasks, _ := c.units.GetManagerProperty("DefaultTasksMax") // "" if it cannot be read
	return Service{
		Unit:     unit,
		Settings: all.settings(defaultTasks),
		Process:  all.mainProcess(),
		Commands: all.commands("ExecStartEx"),
	}, nil
}

// Commands reads ExecStart= of a service alone.
func (c *Conn) Commands(service string) ([]Command, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	const name = "ExecStartEx"
	p, err := c.units.GetServicePropertyContext(ctx, service, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", service, err)
	}
	return properties{name: p.Value.Value()}.commands(name), nil
}

// properties are those of a unit, by name. A version of systemd may lack some.
type properties map[string]any

func get[T any](p properties, name string) T {
	value, _ := p[name].(T)
	return value
}

func (p properties) unit(name string) (Unit, error) {
	switch state := get[string](p, "LoadState"); state {
	case "loaded":
	case "not-found":
		return Unit{}, fmt.Errorf("%s: %w", name, ErrNoUnit)
	default:
		return Unit{}, fmt.Errorf("%s: the manager cannot use its files: LoadState is %q", name, state)
	}
	return Unit{
		Name:        get[string](p, "Id"),
		Fragment:    get[string](p, "FragmentPath"),
		DropIns:     get[[]string](p, "DropInPaths"),
		Outdated:    get[bool](p, "NeedDaemonReload"),
		ActiveState: get[string](p, "ActiveState"),
		SubState:    get[string](p, "SubState"),
		Invocation:  hex.EncodeToString(get[[]byte](p, "InvocationID")),
	}, nil
}

func (p properties) mainProcess() MainProcess {
	return MainProcess{
		PID:        int(get[uint32](p, "MainPID")),
		Started:    time.UnixMicro(int64(get[uint64](p, "ExecMainStartTimestamp"))),
		Group:      get[string](p, "ControlGroup"),
		Result:     get[string](p, "Result"),
		ExitStatus: int(get[int32](p, "ExecMainStatus")),
	}
}

func (p properties) settings(defaultTasks string) Settings {
	return Settings{
		Type:        get[string](p, "Type"),
		KillMode:    get[string](p, "KillMode"),
		TimeoutStop: time.Duration(finite(get[uint64](p, "TimeoutStopUSec"))) * time.Microsecond,
		User:        get[string](p, "User"),
		DynamicUser: get[bool](p, "DynamicUser"),
		PAM:         get[string](p, "PAMName"),
		Delegated:   get[bool](p, "Delegate"),
		ReadOnly:    get[bool](p, "ProtectControlGroups"),
		Calls:       p.callFilter(),
		AddressMost: finite(get[uint64](p, "LimitAS")),
		Identifier:  get[string](p, "SyslogIdentifier"),
		Outputs:     []string{get[string](p, "StandardOutput"), get[string](p, "StandardError")},
		OnGroup:     p.onGroup(defaultTasks),
	}
}

// finite is 0 for infinity.
func finite(value uint64) uint64 {
	if value == math.MaxUint64 {
		return 0
	}
	return value
}

// callFilter decodes (bas).
func (p properties) callFilter() (f CallFilter) {
	if fields := get[[]any](p, "SystemCallFilter"); len(fields) == 2 {
		f.AllowsOnly, _ = fields[0].(bool)
		f.Names, _ = fields[1].([]string)
	}
	return f
}

// commands decodes a(sasasttttuii): the path, the arguments, the flags, and how the command ended.
func (p properties) commands(name string) (all []Command) {
	for _, fields := range get[[][]any](p, name) {
		if len(fields) < 3 {
			continue
		}
		var command Command
		command.Program, _ = fields[0].(string)
		command.Argv, _ = fields[1].([]string)
		command.Flags, _ = fields[2].([]string)
		all = append(all, command)
	}
	return all
}

// groupSettings act on the control group of a unit (systemd.resource-control(5)), by their names over D-Bus
// where that differs.
var groupSettings = map[string]string{
	"AllowedCPUs": "", "AllowedMemoryNodes": "", "BPFProgram": "", "CPUQuota": "CPUQuotaPerSecUSec",
	"DeviceAllow": "", "DevicePolicy": "", "IOReadBandwidthMax": "", "IOReadIOPSMax": "",
	"IOWriteBandwidthMax": "", "IOWriteIOPSMax": "", "IPAddressAllow": "", "IPAddressDeny": "",
	"IPEgressFilterPath": "", "IPIngressFilterPath": "", "MemoryHigh": "", "MemoryMax": "",
	"MemorySwapMax": "", "MemoryZSwapMax": "", "PrivateDevices": "", "RestrictNetworkInterfaces": "",
	"SocketBindAllow": "", "SocketBindDeny": "", "TasksMax": "",
}

// onGroup returns the group settings of a unit that are not as without them.
func (p properties) onGroup(defaultTasks string) (names []string) {
	for setting, name := range groupSettings {
		if name == "" {
			name = setting
		}
		isDefault := setting == "TasksMax" && fmt.Sprintf("@t %v", p[name]) == defaultTasks
		if !isDefault && isSet(p[name]) {
			names = append(names, setting)
		}
	}
	if p.hasOwnSlice() {
		names = append(names, "Slice")
	}
	slices.Sort(names)
	return names
}

// hasOwnSlice reports whether a service is elsewhere than services and instances of templates are, and there
// may be limits.
func (p properties) hasOwnSlice() bool {
	slice := get[string](p, "Slice")
	if strings.Contains(get[string](p, "Id"), "@") {
		return !strings.HasPrefix(slice, "system-") && !strings.HasPrefix(slice, "app-")
	}
	return slice != "" && slice != "system.slice" && slice != "app.slice"
}

// isSet reports whether a property differs from its default: false, infinity, auto or an empty list.
func isSet(property any) bool {
	switch value := property.(type) {
	case nil:
		return false
	case bool:
		return value
	case uint64:
		return value != math.MaxUint64
	case string:
		return value != "" && value != "auto"
	case []any: // a list that allows, or one that denies
		return slices.ContainsFunc(value, func(field any) bool { return isList(field) && isSet(field) })
	}
	return isList(property) && reflect.ValueOf(property).Len() > 0
}

func isList(value any) bool { return value != nil && reflect.TypeOf(value).Kind() == reflect.Slice }

// IsProgram reports whether a command executes a program of that name with a first argument.
func (c Command) IsProgram(name, argument string) bool {
	return len(c.Argv) > 1 && path.Base(c.Argv[0]) == name && c.Argv[1] == argument
}
