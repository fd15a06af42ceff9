// SPDX-License-Identifier: Apache-2.0

//go:build linux

package units

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// managerWithin is how long a manager may take to answer.
const managerWithin = 5 * time.Second

// serviceOf asks the manager for the command of a gateway's service.
func serviceOf(unit string) (Service, error) {
	kind := systemd.System
	if own() == User {
		kind = systemd.User
	}
	m, err := systemd.Dial(kind, managerWithin)
	if err != nil {
		return Service{}, err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.Background(), managerWithin)
	defer cancel()
	known, err := m.Service(ctx, unit)
	if err != nil {
		return Service{}, err
	}
	s, err := gatewayService(known)
	if err != nil {
		return s, fmt.Errorf("%s of the %s manager: %w", unit, kind, err)
	}
	return s, nil
}

// gatewayService returns the properties for a drop-in. A mcpscope gateway in front of the command is removed.
func gatewayService(known systemd.Service) (s Service, err error) {
	switch {
	case known.State == "not-found":
		return s, errors.New("there is no such unit")
	case known.State != "loaded":
		return s, fmt.Errorf("it is %s", known.State)
	case known.Stale:
		return s, errors.New("its files have changed: run systemctl daemon-reload first")
	case len(known.Start) == 0:
		return s, errors.New("it starts no command (ExecStart=)")
	case len(known.Start) > 1:
		return s, fmt.Errorf("it starts %d commands; mcpscope cannot find the gateway", len(known.Start))
	}
	start := known.Start[0]
	if start.Argv[0] != start.Path && start.Argv[0] != filepath.Base(start.Path) {
		return s, errors.New("its command has another name than its program (ExecStart=@), " +
			"which mcpscope gateway cannot set")
	}
	s.Argv = append([]string{start.Path}, start.Argv[1:]...)
	s.Identifier = known.Identifier
	if filepath.Base(start.Path) == cli.Runner && len(start.Argv) > 2 &&
		start.Argv[1] == settings.Gateway.String() {
		operands, _, err := settings.Defaults().FromArguments(settings.Gateway, start.Argv[2:])
		if err != nil || len(operands) == 0 {
			return s, errors.New("its command is mcpscope gateway with invalid flags")
		}
		s.Argv = operands
	}
	s.Prefix, err = Prefix(start.Flags)
	return s, err
}
