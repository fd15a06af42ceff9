// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Gateway is the service of a gateway.
type Gateway struct {
	Name    ServiceName
	service service
}

// ErrOutdated is of a service whose files have changed: the command that systemd shows may not be the one of
// the files.
var ErrOutdated = errors.New("its files have changed since systemd read them")

// FindGateway reads a service and its files, and its drop-in in a directory of units. The error is
// ErrOutdated if the manager has yet to read another file.
func FindGateway(name ServiceName, dir string) (Gateway, error) {
	if isTemplate(name.Full) {
		instance := strings.TrimSuffix(name.Full, ".service") + "1"
		const text = "%s is a template: name an instance, such as %s"
		return Gateway{}, fmt.Errorf(text, name.Full, instance)
	}
	if err := CheckManager(); err != nil {
		return Gateway{}, err
	}
	s, err := loadService(systemd.Own(), name.Full)
	if err != nil {
		return Gateway{}, err
	}
	if err := s.checkRead(dir); err != nil {
		return Gateway{}, err
	}
	return Gateway{Name: name, service: s.withDropIn(dir)}, nil
}

// ReloadGateway has the manager read changed files, and then reads the service.
func ReloadGateway(name ServiceName) (Gateway, error) {
	if err := ReloadStep().Run(); err != nil {
		return Gateway{}, err
	}
	s, err := loadService(systemd.Own(), name.Full)
	if err != nil {
		return Gateway{}, err
	}
	return Gateway{Name: name, service: s}, nil
}

// GatewayFlags are the flags of mcpscope gateway in a drop-in.
type GatewayFlags struct {
	Words []string // each flag with its value in one word
	Kept  bool     // they are those of the drop-in that is replaced
}

// String spells the flags as a person enters them in a shell.
func (f GatewayFlags) String() string { return printableFlags(f.Words) }

// Flags returns the flags for the drop-in. An installation without entered flags, such as one after a change
// of the command, keeps those of the drop-in.
func (g Gateway) Flags(entered []string) (GatewayFlags, error) {
	if len(entered) > 0 {
		return GatewayFlags{Words: entered}, nil
	}
	kept := g.service.keptFlags()
	if len(kept) == 0 {
		return GatewayFlags{}, nil
	}
	if _, _, err := settings.Defaults().FromArguments(settings.Gateway, kept); err != nil {
		const again = "mcpscope units --unit %s --remove --now, then install it again"
		err = fmt.Errorf("keep the flags of its drop-in: %w", err)
		return GatewayFlags{}, remedy.With(err, fmt.Sprintf(again, g.Name.Entered))
	}
	return GatewayFlags{Words: kept, Kept: true}, nil
}

// DropIn returns the drop-in that runs the service's command under mcpscope.
func (g Gateway) DropIn(programs Programs, flags GatewayFlags) (DropIn, error) {
	words, groupNote := g.service.keepInGroup(flags.Words)
	file, err := dropIn(g.service, programs, words...)
	if err != nil {
		return DropIn{}, err
	}
	return DropIn{
		Gateway:    g,
		File:       file,
		Flags:      flags,
		GroupNote:  groupNote,
		LogCommand: g.service.logCommand(file),
	}, nil
}

// NotStarted is the reason for which a service is not restarted with its drop-in. It is not known then
// whether its servers can be contained.
type NotStarted struct {
	Reason string
	Remedy string
}

// WhyNotStarted returns nil for a service that the caller should restart.
func (g Gateway) WhyNotStarted() *NotStarted {
	if g.service.isJob() {
		const text = "%s is Type=oneshot: it was not started, so it is not known " +
			"whether its servers can be contained"
		return &NotStarted{
			Reason: fmt.Sprintf(text, g.Name.Entered),
			Remedy: "after its next start: " + journalCommand(g.service.Manager) + " -u " + g.service.Name,
		}
	}
	if g.service.ActiveState == "inactive" { // a person has stopped it, or has never started it
		const text = "%s does not run, and was not started: it is not known whether its servers " +
			"can be contained"
		start := systemctlStep("start", g.Name.Entered).String()
		return &NotStarted{
			Reason: fmt.Sprintf(text, g.service.Name),
			Remedy: start + " && mcpscope units --unit " + g.Name.Entered + " --install --now",
		}
	}
	return nil
}

// RestartStep starts the service with its drop-in.
func (g Gateway) RestartStep() Step { return systemctlStep("restart", g.Name.Entered) }

// AwaitContainment waits until it is decided whether a group can be made for a server of the service, which
// was just started.
func (g Gateway) AwaitContainment() (Containment, error) {
	c, err := awaitContainment(systemd.Own(), g.Name.Full)
	return c, g.withUndo(err)
}

// withUndo adds to the error of a service that does not run how it runs as before.
func (g Gateway) withUndo(err error) error {
	systemctl := systemctlCommand(systemd.Own())
	unit := g.Name.Entered
	undo := "mcpscope units --unit " + unit + " --remove --now && " + systemctl + " start " + unit
	return remedy.With(err, systemctl+" status "+unit+"; to undo: "+undo)
}
