// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/flags"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// execStart is the ExecStart= line of a drop-in for a gateway.
type execStart struct {
	Prefix  string   // special characters of systemd, such as "-" and ":"
	Flags   []string // of mcpscope gateway, each with its value in one word
	Command string   // the gateway's own command, as its unit file spells it
}

// parseExecStart finds the last ExecStart= in the text of a drop-in.
func parseExecStart(text string) (line execStart, ok bool) {
	value := ""
	for _, a := range parseUnit(text) {
		if a.Section == "Service" && a.Key == "ExecStart" {
			value = a.Value
		}
	}
	rest := strings.TrimLeft(value, prefixCharacters)
	line.Prefix = strings.TrimSuffix(value, rest)
	rest = rest[len(firstWord.FindString(rest)):]
	rest, ok = strings.CutPrefix(rest, " gateway ")
	if !ok {
		return line, false
	}
	for strings.HasPrefix(rest, `"`) {
		flag, length := unquoteWord(rest, expandsVariables(line.Prefix))
		if length == 0 {
			return line, false
		}
		line.Flags = append(line.Flags, flag)
		rest = strings.TrimPrefix(rest[length:], " ")
	}
	line.Command, ok = strings.CutPrefix(rest, "-- ")
	return line, ok
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
	return execStart{Prefix: prefix, Command: withSingleBlanks(command)}, nil
}

// prefixCharacters may precede the command of ExecStart= (systemd.service(5), "Special executable prefixes").
const prefixCharacters = "-:+!@|"

// expandsVariables reports whether systemd replaces variables in the arguments of a command with this prefix.
func expandsVariables(prefix string) bool { return !strings.Contains(prefix, ":") }

// quotedPairs are the spellings that quoteWord uses: a character, and its spelling.
func quotedPairs(expandsVariables bool) []string {
	pairs := []string{`\`, `\\`, `"`, `\"`, "%", "%%", "\n", `\n`, "\t", `\t`, "\r", `\r`}
	if expandsVariables {
		pairs = append(pairs, "$", "$$")
	}
	return pairs
}

// flagWords spells words for ExecStart=, each with a blank behind it.
func flagWords(flags []string, expandsVariables bool) string {
	var line strings.Builder
	for _, flag := range flags {
		line.WriteString(quoteWord(flag, expandsVariables) + " ")
	}
	return line.String()
}

// quoteWord spells a word so that systemd reads it as it is (systemd.service(5), "Command lines").
func quoteWord(word string, expandsVariables bool) string {
	return `"` + strings.NewReplacer(quotedPairs(expandsVariables)...).Replace(word) + `"`
}

// unquoteWord reads the word that quoteWord has spelled at the beginning of a text. The length of its
// spelling is 0 if the word does not end.
func unquoteWord(text string, expandsVariables bool) (word string, length int) {
	end := 1
	for end < len(text) && text[end] != '"' {
		if text[end] == '\\' { // it escapes the next character
			end++
		}
		end++
	}
	if end >= len(text) {
		return "", 0
	}
	pairs := quotedPairs(expandsVariables)
	slices.Reverse(pairs) // the spelling comes first, then the character
	return strings.NewReplacer(pairs...).Replace(text[1:end]), end + 1
}

// keptFlags are the flags in the drop-in of the service. An edited one does not count: it is not replaced.
func (s service) keptFlags() (flags []string) {
	for _, f := range s.Files {
		if !IsDropIn(f.Path, f.Text) || !isSealed(f.Text) {
			continue
		}
		if line, ok := parseExecStart(f.Text); ok {
			flags = line.Flags
		}
	}
	return flags
}

// printableFlags spells flags as a person enters them in a shell.
func printableFlags(given []string) string {
	var words []string
	for _, flag := range given {
		name, value, _ := strings.Cut(flag, "=")
		isSwitch := slices.ContainsFunc(settings.Rows(settings.Gateway), func(r *settings.Row) bool {
			return flags.Dashes(r.Name) == name && r.Switch()
		})
		switch {
		case isSwitch && value == "true":
			words = append(words, name)
		case isSwitch:
			words = append(words, flag)
		default:
			words = append(words, name, cli.Word(value))
		}
	}
	return strings.Join(words, " ")
}

// isGatewayCommand reports whether a command, as a unit file spells it without a prefix, is mcpscope gateway.
func isGatewayCommand(command string) bool {
	arguments := command[len(firstWord.FindString(command)):]
	isGateway := strings.HasPrefix(strings.TrimSpace(arguments), "gateway ")
	return isGateway && programOf(command) == programs.Runner
}

// programOf is the name of the program in a value of ExecStart=.
func programOf(value string) string {
	word := firstWord.FindString(strings.TrimLeft(value, prefixCharacters))
	return path.Base(strings.Trim(word, `"'`))
}

// CommandHasChanged reports whether the files of a service have another command than its drop-in, which
// has that of the installation. It is false without a drop-in.
func CommandHasChanged(manager systemd.Kind, unit string) (bool, error) {
	s, err := loadService(manager, unit)
	if err != nil {
		return false, err
	}
	return s.commandHasChanged(), nil
}

func (s service) commandHasChanged() bool {
	changed := false
	for _, f := range s.Files {
		if !IsDropIn(f.Path, f.Text) {
			continue
		}
		installed, ok := parseExecStart(f.Text)
		if !ok { // it was edited
			continue
		}
		now, err := s.written().execStart(s.Name)
		before := withSingleBlanks(installed.Command) // a former version kept all blanks
		changed = err != nil || installed.Prefix != now.Prefix || before != now.Command
	}
	return changed
}
