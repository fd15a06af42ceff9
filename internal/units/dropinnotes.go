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

// killModeNotes describe the drop-in's change of KillMode=.
func (s service) killModeNotes(file File) (notes []string) {
	w := s.written()
	before := w.killMode()
	if before == "mixed" || !strings.Contains(file.Text, killMode) || w.SetLater["KillMode"] != "" {
		return nil
	}
	const text = "KillMode %s → mixed: when the gateway has exited, its other processes get SIGKILL; " +
		"a drop-in with a later name, such as zzz.conf, with KillMode=%s has them get SIGTERM first"
	return []string{fmt.Sprintf(text, before, before)}
}

// killMode is the value that applies without our drop-in.
func (w written) killMode() string { return cmp.Or(w.LastValues["KillMode"], "control-group") }

// survivorNotes are about a unit whose processes survive a stop. When the gateway has ended, nothing proves
// that such a process is a server, and a signal to it could hurt a conversation.
func (s service) survivorNotes() (notes []string) {
	value := s.written().killMode()
	if !keepsProcesses(value) {
		return nil
	}
	const text = "KillMode=%s is kept: a stop leaves processes of the unit alive, and among them a server " +
		"that its gateway has written nothing to; with --match GLOB or --config FILE a server is contained " +
		"from its start"
	return []string{fmt.Sprintf(text, value)}
}

// nameServers reports whether servers are known by a flag, and not by their first message.
func (f GatewayFlags) nameServers() bool {
	return slices.ContainsFunc(f.Words, func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		return name == "--match" || name == "--config"
	})
}

// overriddenNotes name the settings of the drop-in that another one replaces: it sorts after ours.
func (s service) overriddenNotes(file File) (notes []string) {
	w := s.written()
	for _, a := range parseUnit(file.Text) {
		other, isSet := w.SetLater[a.Key]
		isOurs := a.Section == "Service" && isSet
		switch {
		case !isOurs:
		case a.Key == "KillMode":
			notes = append(notes, keptKillModeNotes(w.killMode(), other)...)
		default:
			notes = append(notes, fmt.Sprintf("%s sets %s= and sorts after %s: %s=%s does not apply",
				other, a.Key, dropInName, a.Key, a.Value))
		}
	}
	return notes
}

// keptKillModeNotes are about a value in a later drop-in, which an administrator may prefer to ours.
func keptKillModeNotes(value, file string) (notes []string) {
	if value == "mixed" {
		return nil
	}
	const text = "KillMode=%s of %s is kept: at a stop the gateway and the other processes of its unit get " +
		"SIGTERM together"
	return []string{fmt.Sprintf(text, value, file)}
}
