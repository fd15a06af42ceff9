// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// Unit is the unit of a process.
type Unit struct {
	Name     string       `json:"name"`
	Manager  systemd.Kind `json:"manager"`
	KillMode string       `json:"kill_mode,omitempty"` // of a service; see doctor
}

// OwnUnit returns the unit of this process, or nil.
func OwnUnit() *Unit {
	own, _ := proc.ReadCgroup(0) // "" is no unit
	return unitAt(own)
}

// unitLetters are the characters of unit names.
const unitLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@"

// unitAt returns nil for a name that systemd does not give: a directory can have any name.
func unitAt(group string) *Unit {
	name, kind, ok := systemd.UnitOf(group, os.Getuid())
	strange := func(r rune) bool { return !strings.ContainsRune(unitLetters, r) }
	if !ok || strings.ContainsFunc(name, strange) {
		return nil
	}
	return &Unit{Name: name, Manager: kind}
}

// Service reports whether the unit is a service whose settings can be edited.
func (u *Unit) Service() bool { return path.Ext(u.Name) == ".service" && !isGenerated(u.Name) }

// isGenerated reports whether systemd-run has made up the name of a service, as in run-u19.service. Its next
// start has another one, so an edit would be lost.
func isGenerated(name string) bool {
	number, isRun := strings.CutPrefix(strings.TrimSuffix(name, ".service"), "run-")
	if !isRun || number == "" || !strings.Contains("upr", number[:1]) {
		return false
	}
	return strings.Trim(number[1:], "0123456789abcdef-i") == ""
}

// Edit returns the command that edits a drop-in of the unit.
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
