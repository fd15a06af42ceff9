// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// TransientService describes a command that the manager itself starts, so that it is nobody else's child and in
// nobody else's control group.
type TransientService struct {
	Name        string // with ".service"; never one that exists
	Slice       string // "" for the manager's own choice
	Description string
	Path        string // the file to execute
	Argv        []string
	Env         []string // beside the manager's own, which it overrides
	Dir         string   // where it runs, an absolute path
}

// Run starts the service and returns when its command has been executed (Type=exec). It gives up after
// within. What the command leaves behind goes on when it has ended: the service lasts until the last of its
// processes has ended (ExitType=cgroup of systemd 250).
func (m *Manager) Run(s TransientService, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := m.start(ctx, s.Name, failing, s.properties()); err != nil {
		return fmt.Errorf("start %s: %w", s.Name, err)
	}
	return nil
}

// execStart is one command of ExecStart=, whose D-Bus type is (sasb).
type execStart struct {
	Path          string
	Argv          []string
	IgnoreFailure bool
}

func (s TransientService) properties() []dbus.Property {
	line := make([]string, len(s.Argv))
	for i, arg := range s.Argv {
		line[i] = strings.ReplaceAll(arg, "$", "$$") // otherwise systemd.service(5) puts variables in
	}
	all := []dbus.Property{
		dbus.PropDescription(s.Description),
		property("Type", "exec"),
		property("ExitType", "cgroup"),
		property("ExecStart", []execStart{{Path: s.Path, Argv: line}}),
		property("Environment", s.Env),
		property("WorkingDirectory", s.Dir),
		property("CollectMode", "inactive-or-failed"),
	}
	if s.Slice != "" {
		all = append(all, dbus.PropSlice(s.Slice))
	}
	return all
}
