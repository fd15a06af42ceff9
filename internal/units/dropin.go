// SPDX-License-Identifier: Apache-2.0

package units

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// addressLeast is the address space in bytes that the runtime of Go reserves at its start.
const addressLeast = 1 << 30

// delegation has the manager give the unit's control group to the service's user. The manager of that user,
// if there is one, ends at the user's logout.
const delegation = `# Servers get groups below that of the unit: they live as long as it does,
# and the settings of its control group act on them.
Delegate=yes
`

// killMode replaces control-group, with which systemd signals the gateway and all other processes at once.
const killMode = `# At a stop SIGTERM goes to the gateway alone: it can use its servers until it has drained.
# How long that may take is its unit's TimeoutStopSec=.
KillMode=mixed
`

// keepsProcesses reports whether a value of KillMode= leaves processes of the unit alive at a stop. An author
// wants that, e.g. for conversations that outlive a restart. SIGTERM goes to the gateway alone, or to no
// process: the gateway can use its servers. They end with it, for they are in groups of their own.
func keepsProcesses(value string) bool { return value == "process" || value == "none" }

// dropIn returns a drop-in that runs the service's command under mcpscope.
func dropIn(s service, programs Programs, flags ...string) (File, error) {
	w := s.written()
	if err := s.checkSupported(w); err != nil {
		return File{}, err
	}
	line, err := w.execStart(s.Name)
	if err != nil {
		return File{}, err
	}
	needsDelegation := s.runsAsUser() || usesDelegation(flags)
	delegateLines := ""
	if needsDelegation && !isDelegated(w.LastValues["Delegate"]) {
		delegateLines = delegation
	}
	killModeLines := killMode
	if keepsProcesses(w.LastValues["KillMode"]) {
		killModeLines = ""
	}
	identifier := cmp.Or(w.LastValues["SyslogIdentifier"], strings.TrimSuffix(s.Name, ".service"))
	values := strings.NewReplacer(
		"@PREFIX@", line.Prefix,
		"@FLAGS@", flagWords(flags, expandsVariables(line.Prefix)),
		"@COMMAND@", line.Command,
		"@IDENTIFIER@", identifier,
		"@DELEGATE@", delegateLines,
		"@KILLMODE@", killModeLines,
	)
	return File{Name: dropInOf(s.Name), Text: values.Replace(fill("gateway.conf", programs))}, nil
}

// checkSupported returns the reason why a service cannot run under mcpscope, if there is one.
func (s service) checkSupported(w written) error {
	if s.Type == "forking" {
		const text = "%s is Type=forking, which mcpscope does not support; " +
			"start the gateway in the foreground (Type=simple, exec or notify)"
		return fmt.Errorf(text, s.Name)
	}
	if s.AddressMost > 0 && s.AddressMost < addressLeast {
		const text = "LimitAS= of %s is %d MB, and mcpscope needs 1 GB: MemoryMax= limits the memory in use"
		return fmt.Errorf(text, s.Name, s.AddressMost>>20)
	}
	missing := s.forbiddenCalls()
	if len(missing) > 0 {
		const text = "SystemCallFilter= of %s forbids system calls that mcpscope needs; " +
			"add SystemCallFilter=%s"
		return fmt.Errorf(text, s.Name, strings.Join(missing, " "))
	}
	later := w.SetLater["ExecStart"]
	if later != "" {
		const text = "%s sets ExecStart= and sorts after %s: rename it"
		return fmt.Errorf(text, later, dropInName)
	}
	return nil
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
