// SPDX-License-Identifier: Apache-2.0

package units

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// managerWithin bounds the wait for a manager, which may hang.
const managerWithin = 5 * time.Second

// managerEnvironment has XDG_RUNTIME_DIR, which clients often do not pass on.
func managerEnvironment() []string {
	return append(os.Environ(), fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", os.Getuid()))
}

// Systemctl returns the output of systemctl.
func Systemctl(of systemd.Kind, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), managerWithin)
	defer cancel()
	c := exec.CommandContext(ctx, "systemctl", append([]string{"--" + string(of), "--no-pager"}, args...)...)
	c.Env = managerEnvironment()
	out, err := c.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// readService reads what a manager has of a service.
func readService(of systemd.Kind, unit string) (systemd.Service, error) {
	m, err := systemd.Dial(of, managerWithin)
	if err != nil {
		return systemd.Service{}, err
	}
	defer m.Close()
	s, err := m.Service(unit)
	return s, explainNoService(err, unit)
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
func loadService(of systemd.Kind, unit string) (service, error) {
	s, err := readService(of, unit)
	if err != nil {
		return service{}, err
	}
	return loadFiles(service{Service: s, Manager: of})
}

// loadFiles reads the files that the manager has read for a service.
func loadFiles(loaded service) (service, error) {
	for _, file := range append([]string{loaded.Fragment}, loaded.DropIns...) {
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

// addressLeast is the address space in bytes that the runtime of Go reserves at its start.
const addressLeast = 1 << 30

// delegation has the manager give the unit's control group to the service's user. That user may have no
// manager of its own, or one that starts after the service.
const delegation = `# Servers get groups below that of the unit: their user may have no systemd manager,
# or the unit has settings that act on its control group.
Delegate=yes
`

// killMode replaces control-group, with which systemd signals the gateway and all other processes at once.
const killMode = `# At a stop SIGTERM goes to the gateway alone: it can use its servers until it has drained.
# How long that may take is its unit's TimeoutStopSec=.
KillMode=mixed
`

// keepsProcesses reports whether a value of KillMode= leaves processes of the unit alive at a stop. An author
// wants that, e.g. for sessions that outlive a restart. SIGTERM goes to the gateway alone, or to no process:
// the gateway can use its servers. They end with it, for they are in groups of their own.
func keepsProcesses(value string) bool { return value == "process" || value == "none" }

// logLine is the command that shows the log of a service and of its servers, or "" for an identifier with
// specifiers. Servers in scopes of their own are missing in journalctl -u.
func (s service) logLine(file File) string {
	identifier := ""
	for _, a := range parseUnit(file.Text) {
		if a.Section == "Service" && a.Key == "SyslogIdentifier" {
			identifier = a.Value
		}
	}
	if strings.Contains(identifier, "%") {
		return ""
	}
	for _, stream := range []string{"StandardOutput", "StandardError"} {
		kind, _, _ := strings.Cut(s.written().LastValues[stream], ":")
		if slices.Contains([]string{"file", "append", "truncate", "null", "tty", "socket"}, kind) {
			return "" // the journal has a part of the output
		}
	}
	return "log: " + journalCommand(s.Manager) + " -t " + shellWord(identifier)
}

// killModeNote describes the drop-in's change of KillMode=, or is "" if it does not change it.
func (s service) killModeNote(file File) string {
	w := s.written()
	before := cmp.Or(w.LastValues["KillMode"], "control-group")
	if before == "mixed" || !strings.Contains(file.Text, killMode) || w.SetLater["KillMode"] != "" {
		return ""
	}
	const text = "KillMode %s → mixed: when the gateway has exited, its other processes get SIGKILL"
	return fmt.Sprintf(text, before)
}

// overriddenNotes name the settings of the drop-in that another one replaces: it sorts after ours.
func (s service) overriddenNotes(file File) (notes []string) {
	later := s.written().SetLater
	for _, a := range parseUnit(file.Text) {
		other, isSet := later[a.Key]
		if a.Section == "Service" && isSet {
			notes = append(notes, fmt.Sprintf("%s sets %s= and sorts after %s: %s=%s does not apply",
				other, a.Key, dropInName, a.Key, a.Value))
		}
	}
	return notes
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

// execStart returns the line for the drop-in, without flags.
func (w written) execStart(service string) (line execStart, err error) {
	if len(w.Commands) != 1 {
		const text = "%s starts %d commands (ExecStart=); mcpscope needs one"
		return line, fmt.Errorf(text, service, len(w.Commands))
	}
	command := strings.TrimLeft(w.Commands[0], prefixCharacters)
	prefix := strings.TrimSuffix(w.Commands[0], command)
	switch {
	case strings.ContainsAny(prefix, "@|"):
		const text = "mcpscope does not support the prefix %q of ExecStart= in %s"
		return line, fmt.Errorf(text, prefix, service)
	case isGatewayCommand(command):
		return line, fmt.Errorf("the command of %s is mcpscope gateway already", service)
	}
	if expandsVariables(prefix) { // in arguments, but not in the program's path
		word := firstWord.FindString(command)
		command = strings.ReplaceAll(word, "$", "$$") + command[len(word):]
	}
	return execStart{Prefix: prefix, Command: command}, nil
}

// dropIn returns a drop-in that runs the service's command under mcpscope.
func dropIn(s service, by Programs, flags ...string) (File, error) {
	file := File{Name: dropInOf(s.Name)}
	w := s.written()
	if s.Type == "forking" {
		const text = "%s is Type=forking, which mcpscope does not support; " +
			"start the gateway in the foreground (Type=simple, exec or notify)"
		return file, fmt.Errorf(text, s.Name)
	}
	if s.AddressMost > 0 && s.AddressMost < addressLeast {
		const text = "LimitAS= of %s is %d MB, and mcpscope needs 1 GB: MemoryMax= limits the memory in use"
		return file, fmt.Errorf(text, s.Name, s.AddressMost>>20)
	}
	if missing := s.forbiddenCalls(); len(missing) > 0 {
		const text = "SystemCallFilter= of %s forbids system calls that mcpscope needs; " +
			"add SystemCallFilter=%s"
		return file, fmt.Errorf(text, s.Name, strings.Join(missing, " "))
	}
	if later := w.SetLater["ExecStart"]; later != "" {
		const text = "%s sets ExecStart= and sorts after %s: rename it"
		return file, fmt.Errorf(text, later, dropInName)
	}
	line, err := w.execStart(s.Name)
	if err != nil {
		return file, err
	}
	delegated := ""
	if (s.runsAsUser() || usesDelegation(flags)) && !isDelegated(w.LastValues["Delegate"]) {
		delegated = delegation
	}
	killed := killMode
	if keepsProcesses(w.LastValues["KillMode"]) {
		killed = ""
	}
	identifier := cmp.Or(w.LastValues["SyslogIdentifier"], programOf(w.Commands[0]))
	words := flagWords(flags, expandsVariables(line.Prefix))
	file.Text = strings.NewReplacer(
		"@PREFIX@", line.Prefix, "@FLAGS@", words, "@COMMAND@", line.Command, "@IDENTIFIER@", identifier,
		"@DELEGATE@", delegated, "@KILLMODE@", killed,
	).Replace(text("gateway.conf", by))
	return file, nil
}

// isDelegated reports whether a value of Delegate= gives the control group away. It is a boolean, or a list
// of controllers.
func isDelegated(value string) bool {
	switch strings.ToLower(value) {
	case "", "0", "no", "n", "false", "f", "off":
		return false
	}
	return true
}

var firstWord = regexp.MustCompile(`^("[^"]*"|'[^']*'|\S+)`)

// dropInName sorts after override.conf, which `systemctl edit` writes: the last ExecStart= counts.
const (
	dropInName       = "zz-mcpscope.conf"
	formerDropInName = "mcpscope.conf" // of former versions
)

// isDropInPath reports whether a file is a drop-in of a unit. These are sorted by their names, in whatever
// directory they are.
func isDropInPath(file string) bool { return strings.HasSuffix(path.Dir(file), ".d") }

func dropInOf(unit string) string { return path.Join(unit+".d", dropInName) }

func formerDropInOf(unit string) string { return path.Join(unit+".d", formerDropInName) }

// IsDropIn reports whether a file has the name and the text of a drop-in for a gateway.
func IsDropIn(file, text string) bool {
	return isDropInName(file) && strings.Contains(text, Written)
}

func isDropInName(file string) bool {
	name := path.Base(file)
	return name == dropInName || name == formerDropInName
}
