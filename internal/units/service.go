// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// serviceName matches a name that is safe in a path and, apart from backslashes, as a word of a shell.
var serviceName = regexp.MustCompile(`^[A-Za-z0-9:_\\@-][A-Za-z0-9:_.\\@-]*\.service$`)

const nameMost = 252 // with .d behind it, it names a directory, by at most 255 bytes

// otherUnits are the endings of units that run no command of their own (systemd.unit(5)).
var otherUnits = []string{
	".automount", ".device", ".mount", ".path", ".scope", ".slice", ".socket", ".swap", ".target", ".timer",
}

// ServiceName is the name of a service, from which a path can be made.
type ServiceName struct {
	Entered string // as a person spells it, which may be without its ending
	Full    string
}

// ParseServiceName completes the name of a service.
func ParseServiceName(entered string) (ServiceName, error) {
	full := strings.TrimSuffix(entered, ".service") + ".service"
	if slices.Contains(otherUnits, path.Ext(entered)) {
		return ServiceName{}, fmt.Errorf("%q is no service, and a gateway is one", entered)
	}
	if len(full) > nameMost || !serviceName.MatchString(full) {
		return ServiceName{}, fmt.Errorf("%q is not the name of a service", entered)
	}
	return ServiceName{Entered: entered, Full: full}, nil
}

// isTemplate reports whether a name is that of a template, which has instances and does not run itself.
func isTemplate(service string) bool { return strings.HasSuffix(service, "@.service") }

// readService reads what a manager has of a service.
func readService(manager systemd.Kind, unit string) (systemd.Service, error) {
	m, err := systemd.Dial(manager, managerWithin)
	if err != nil {
		return systemd.Service{}, err
	}
	defer m.Close()
	s, err := m.Service(unit)
	return s, explainNoService(err, unit)
}

// ErrOfSystem is of a service that only root may change.
var ErrOfSystem = errors.New("is a unit of the system manager")

// CheckOwner returns ErrOfSystem if the system manager has a service, and the manager of this user does not.
func CheckOwner(name ServiceName) error {
	if systemd.Own() == systemd.System {
		return nil
	}
	_, err := readService(systemd.User, name.Full)
	if err == nil {
		return nil
	}
	state, err := Systemctl(systemd.System, "show", "--value", "--property=LoadState", name.Full)
	if err != nil || state != "loaded" { // another error is the reason
		return nil
	}
	return fmt.Errorf("%s %w", name.Full, ErrOfSystem)
}

// explainNoService adds to an error how a person finds the name of a service.
func explainNoService(err error, unit string) error {
	if !errors.Is(err, systemd.ErrNoService) {
		return err
	}
	return &noServiceError{unit}
}

// noServiceError is systemd.ErrNoService with its remedy.
type noServiceError struct{ Unit string }

func (e *noServiceError) Error() string {
	list := systemctlStep("list-units", "--type=service")
	return fmt.Sprintf("there is no %s (%s lists the services)", e.Unit, list)
}

func (e *noServiceError) Unwrap() error { return systemd.ErrNoService }

// service is the service of a gateway, as its manager and its files have it.
type service struct {
	systemd.Service
	Manager systemd.Kind
	Files   []unitFile // in the order in which they apply
}

// unitFile is a unit file or a drop-in.
type unitFile struct{ Path, Text string }

// loadService reads a service and its files: there the specifiers, variables and quotes of the command are as
// they were written.
func loadService(manager systemd.Kind, unit string) (service, error) {
	s, err := readService(manager, unit)
	if err != nil {
		return service{}, err
	}
	return loadFiles(service{Service: s, Manager: manager})
}

// loadFiles reads the files that the manager has read for a service.
func loadFiles(loaded service) (service, error) {
	for _, file := range slices.Concat([]string{loaded.Fragment}, loaded.DropIns) {
		if file == "" { // a service without a unit file has drop-ins alone
			continue
		}
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // it was removed since the manager has read it
			loaded.Outdated = true
			continue
		}
		if err != nil {
			return service{}, err
		}
		loaded.Files = append(loaded.Files, unitFile{file, string(text)})
	}
	return loaded, nil
}

// runsAsUser reports whether the service of the system manager has a user that is not root. Only root makes
// groups where it likes.
func (s service) runsAsUser() bool {
	named := s.User != "" && s.User != "root" && s.User != "0"
	return s.Manager == systemd.System && (s.DynamicUser || named)
}

// isJob reports whether the service is started when its time has come. systemctl waits for the end of a job
// that it starts.
func (s service) isJob() bool { return s.Type == "oneshot" }

// forbiddenCalls are those that mcpscope needs and the service must not use. @system-service lacks two.
// With the default action, systemd's filter would kill the gateway, or its watcher at the first server.
func (s service) forbiddenCalls() (missing []string) {
	needed := []string{"memfd_create", "pidfd_getfd", "pidfd_open", "process_vm_readv", "seccomp", "tee"}
	for _, name := range needed {
		if !s.Calls.Allows(name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// written has the settings in the files of a service, without those of mcpscope.
type written struct {
	Commands   []string          // the values of ExecStart= that apply
	LastValues map[string]string // of each other key in [Service], the last value
	SetLater   map[string]string // of each key, the drop-in that sets it after ours would
}

func (s service) written() written {
	w := written{LastValues: map[string]string{}, SetLater: map[string]string{}}
	for _, f := range s.Files {
		if IsDropIn(f.Path, f.Text) {
			continue
		}
		for _, a := range parseUnit(f.Text) {
			if a.Section != "Service" {
				continue
			}
			if isDropInPath(f.Path) && path.Base(f.Path) > dropInName {
				w.SetLater[a.Key] = f.Path
			}
			if a.Key != "ExecStart" {
				w.LastValues[a.Key] = a.Value
				continue
			}
			if a.Value == "" {
				w.Commands = nil
			} else {
				w.Commands = append(w.Commands, a.Value)
			}
		}
	}
	return w
}
