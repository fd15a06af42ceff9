// SPDX-License-Identifier: Apache-2.0

package units

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// logCommand is the command that shows the log of a service and of its servers, or "" for an identifier with
// specifiers. Servers in scopes of their own are missing in journalctl -u.
func (s service) logCommand(file File) string {
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
	return journalCommand(s.Manager) + " -t " + cli.Word(identifier)
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
