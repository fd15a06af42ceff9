// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hostinfo

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// managerWithin is how long a manager may take to answer at all.
const managerWithin = time.Second

// ManagerFacts are about a manager that was asked.
type ManagerFacts struct {
	Name    systemd.Kind `json:"name"`
	Version string       `json:"version,omitempty"`
	Error   string       `json:"error,omitempty"`
}

// Unit is the one that we are in, and a client in the same place.
type Unit struct {
	Name    string       `json:"name"`
	Manager systemd.Kind `json:"manager"`
	// The other fields are set only for services whose manager answers.
	KillMode string `json:"kill_mode,omitempty"`
	Delegate bool   `json:"delegate"`
	Sweeps   bool   `json:"sweeps"` // by ExecStopPost=
}

// OwnUnit is the unit that we are in, without what only its manager knows; nil outside
// of any.
func OwnUnit() *Unit {
	own, _, err := proc.ReadCgroup(0)
	if err != nil {
		return nil
	}
	return unitAt(own)
}

func unitAt(group string) *Unit {
	name, kind, ok := systemd.UnitOf(group, os.Getuid())
	strange := func(r rune) bool { return !strings.ContainsRune(systemd.UnitLetters+"@", r) }
	if !ok || strings.ContainsFunc(name, strange) {
		return nil // a directory that no manager has made can have any name
	}
	return &Unit{Name: name, Manager: kind}
}

// Edit is the command that makes or changes a drop-in of the unit.
func (u *Unit) Edit() string {
	name := u.Name
	if strings.Contains(name, `\`) {
		name = "'" + name + "'" // as systemd escapes e.g. a dash
	}
	if u.Manager == systemd.User {
		return "systemctl --user edit " + name
	}
	return "sudo systemctl edit " + name
}

// Binds reports whether the scopes of a backend are bound to the unit: both belong to the same manager.
func (u *Unit) Binds(b protocol.Backend) bool {
	return b == protocol.SystemdUser && u.Manager == systemd.User ||
		b == protocol.SystemdSystem && u.Manager == systemd.System
}

// Service reports whether the unit is a service, whose settings can be edited.
func (u *Unit) Service() bool { return path.Ext(u.Name) == ".service" }

// managerInfo asks the system manager and, if we are not root, our own.
func managerInfo(unit *Unit) []ManagerFacts {
	kinds := []systemd.Kind{systemd.System, systemd.User}
	if os.Getuid() == 0 {
		kinds = kinds[:1]
	}
	facts := make([]ManagerFacts, len(kinds))
	var wg sync.WaitGroup
	for i, kind := range kinds {
		wg.Go(func() {
			facts[i].Name = kind
			if err := facts[i].ask(unit); err != nil {
				facts[i].Error = err.Error()
			}
		})
	}
	wg.Wait()
	return facts
}

// ask also fills in the unit, if it is this manager's.
func (f *ManagerFacts) ask(unit *Unit) error {
	if err := systemd.Present(f.Name, os.Getuid()); err != nil {
		return err
	}
	conn, err := systemd.Dial(f.Name, managerWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), managerWithin)
	defer cancel()
	if f.Version, err = conn.Version(ctx); err != nil {
		return err
	}
	if unit != nil && unit.Manager == f.Name && unit.Service() {
		return unit.Read(ctx, conn)
	}
	return nil
}

func (u *Unit) Read(ctx context.Context, conn *systemd.Manager) error {
	for name, take := range map[string]func(any){
		"KillMode":     func(v any) { u.KillMode, _ = v.(string) },
		"Delegate":     func(v any) { u.Delegate, _ = v.(bool) },
		"ExecStopPost": func(v any) { u.Sweeps = sweeps(v) },
	} {
		value, err := conn.ServiceProperty(ctx, u.Name, name)
		if err != nil {
			return err
		}
		take(value)
	}
	return nil
}

// sweeps looks for "mcpscope sweep" among commands, a(sasbttttuii): of each the second
// field is its arguments.
func sweeps(commands any) bool {
	list, _ := commands.([][]any)
	return slices.ContainsFunc(list, func(command []any) bool {
		if len(command) < 2 {
			return false
		}
		argv, _ := command[1].([]string)
		return len(argv) > 1 && path.Base(argv[0]) == "mcpscope" && argv[1] == "sweep"
	})
}
