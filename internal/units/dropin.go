// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"hash/crc32"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// override is what the drop-in of a gateway says, apart from the paths of the programs.
type override struct {
	Prefix     string   // special characters of systemd, such as "-" and ":"
	Flags      []string // of mcpscope gateway, each with its value in one word
	Command    []string // the gateway's own, as its manager has it: with variables
	Identifier string   // of its lines in the journal
	Delegates  bool     // the unit's control group
	KillsMixed bool     // KillMode=mixed
	Source     string   // a checksum of the files of the unit
}

// delegation has the manager give the unit's control group to the service's user. The manager of that user,
// if there is one, ends at the user's logout.
const delegation = `# Servers get groups below that of the unit: they live as long as it does,
# and the settings of its control group act on them.
Delegate=yes
`

// killMode replaces control-group, with which systemd signals the gateway and all other processes of the unit
// at once, so also servers that are in it.
const killMode = `# At a stop SIGTERM goes to the gateway alone: it can use its servers until it has drained.
# How long that may take is its unit's TimeoutStopSec=.
KillMode=mixed
`

// readOverride returns the override of a service that its manager starts without one.
func readOverride(s systemd.Service) (override, error) {
	if err := checkSupported(s); err != nil {
		return override{}, err
	}
	command := s.Commands[0]
	prefix, err := prefixOf(command)
	if err != nil {
		return override{}, fmt.Errorf("mcpscope does not support ExecStart= of %s: %w", s.Name, err)
	}
	o := override{
		Prefix:     prefix,
		Command:    slices.Clone(command.Argv),
		Identifier: s.Settings.Identifier,
		Source:     sourceOf(s),
	}
	if o.Identifier == "" {
		o.Identifier = strings.TrimSuffix(s.Name, ".service")
	}
	if o.expandsVariables() { // in arguments, but not in a program's path
		o.Command[0] = strings.ReplaceAll(o.Command[0], "$", "$$")
	}
	return o, nil
}

// addressLeast is the address space in bytes that the runtime of Go reserves at its start.
const addressLeast = 1 << 30

// checkSupported returns the reason why a service cannot run under mcpscope, if there is one.
func checkSupported(s systemd.Service) error {
	missing := forbiddenCalls(s)
	most := s.Settings.AddressMost
	switch {
	case s.Settings.Type == "forking":
		const text = "%s is Type=forking, which mcpscope does not support; " +
			"start the gateway in the foreground (Type=simple, exec or notify)"
		return fmt.Errorf(text, s.Name)
	case len(s.Commands) != 1:
		return fmt.Errorf("%s starts %d commands (ExecStart=); mcpscope needs one", s.Name, len(s.Commands))
	case runsGateway(s):
		return fmt.Errorf("the command of %s is mcpscope gateway already", s.Name)
	case most > 0 && most < addressLeast:
		const text = "LimitAS= of %s is %d MB, and mcpscope needs 1 GB: MemoryMax= limits the memory in use"
		return fmt.Errorf(text, s.Name, most>>20)
	case len(missing) > 0:
		const text = "SystemCallFilter= of %s forbids system calls that mcpscope needs; " +
			"add SystemCallFilter=%s"
		return fmt.Errorf(text, s.Name, strings.Join(missing, " "))
	}
	return nil
}

// forbiddenCalls are those that mcpscope needs and the service must not use. @system-service lacks two.
// With the default action, systemd's filter would kill the gateway's watcher at the first server.
func forbiddenCalls(s systemd.Service) (missing []string) {
	needed := []string{"memfd_create", "pidfd_getfd", "pidfd_open", "process_vm_readv", "seccomp", "tee"}
	for _, name := range needed {
		if !s.Settings.Calls.Allows(name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// prefixes are the special characters of ExecStart=, by the flags that a manager has for them
// (systemd.service(5), "Special executable prefixes").
var prefixes = map[string]string{
	"ignore-failure": "-", "privileged": "+", "no-setuid": "!", "ambient": "!!", "no-env-expand": ":",
}

func prefixOf(c systemd.Command) (prefix string, err error) {
	if len(c.Argv) == 0 || path.Clean(c.Argv[0]) != path.Clean(c.Program) {
		return "", fmt.Errorf("its first argument is not its program %q (prefix @)", c.Program)
	}
	for _, flag := range c.Flags {
		characters, ok := prefixes[flag]
		if !ok {
			return "", fmt.Errorf("it has a prefix for %s", flag)
		}
		prefix += characters
	}
	return prefix, nil
}

// expandsVariables reports whether systemd replaces variables in the arguments.
func (o override) expandsVariables() bool { return !strings.Contains(o.Prefix, ":") }

// sourceOf is a checksum of what the drop-in has a copy of, in the files of a unit that apply before it.
// Later ones are no part of it.
func sourceOf(s systemd.Service) string {
	sum := uint32(0)
	for _, file := range slices.Concat([]string{s.Fragment}, s.DropIns) {
		isDropIn := file != s.Fragment
		if isDropIn && path.Base(file) >= dropInName {
			continue
		}
		text, _ := os.ReadFile(file) // "" of a file that was removed, and of no file
		sum = crc32.Update(sum, crc32.IEEETable, []byte(copiedLines(string(text))))
	}
	return fmt.Sprintf("crc %08x", sum)
}

// copiedLines has the lines of a unit file that set what a drop-in repeats, with those that continue them.
// Any other setting is the unit's own, and stays in force.
func copiedLines(text string) (copied string) {
	isCopied := false
	for line := range strings.Lines(text) {
		key, _, _ := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		isCopied = isCopied || key == "ExecStart" || key == "SyslogIdentifier"
		if isCopied {
			copied += line
		}
		isCopied = isCopied && strings.HasSuffix(strings.TrimRight(line, "\n"), `\`)
	}
	return copied
}

// words are those that the manager has behind the path of mcpscope with this drop-in, with variables.
func (o override) words() []string {
	words := []string{"gateway"}
	for _, flag := range o.Flags {
		if o.expandsVariables() {
			flag = strings.ReplaceAll(flag, "$", "$$")
		}
		words = append(words, flag)
	}
	return append(append(words, "--"), o.Command...)
}

// file is the drop-in of a unit as a file.
func (o override) file(unit string, programs Programs) File {
	delegateLines := ""
	if o.Delegates {
		delegateLines = delegation
	}
	killModeLines := ""
	if o.KillsMixed {
		killModeLines = killMode
	}
	words := o.words()
	for i, word := range words {
		words[i] = quoteWord(word)
	}
	values := strings.NewReplacer(
		"@COMMAND@", o.Prefix+programs.Mcpscope+" "+strings.Join(words, " "),
		"@IDENTIFIER@", escapeSpecifiers(o.Identifier),
		"@DELEGATE@", delegateLines,
		"@KILLMODE@", killModeLines,
		"@SOURCE@", o.Source,
	)
	return File{Name: dropInOf(unit), Text: values.Replace(fill("dropin.conf", programs))}
}

// parseOverride reads a drop-in that file has written.
func parseOverride(text string) (o override, ok bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if source, found := strings.CutPrefix(line, "# Files of the unit: "); found {
			o.Source = source
		}
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "ExecStart":
			ok = o.parseCommand(value)
		case "SyslogIdentifier":
			o.Identifier = strings.ReplaceAll(value, "%%", "%")
		case "Delegate":
			o.Delegates = true
		}
	}
	return o, ok
}

// parseCommand reads the value of an ExecStart= that file has written.
func (o *override) parseCommand(value string) bool {
	rest := strings.TrimLeft(value, "-+!:")
	o.Prefix = strings.TrimSuffix(value, rest)
	words, err := splitWords(rest)
	separator := slices.Index(words, "--") // no flag of ours is that word
	if err != nil || separator < 2 || words[1] != "gateway" {
		return false
	}
	o.Flags = nil
	for _, flag := range words[2:separator] {
		if o.expandsVariables() {
			flag = strings.ReplaceAll(flag, "$$", "$")
		}
		o.Flags = append(o.Flags, flag)
	}
	o.Command = words[separator+1:]
	return true
}

// quoteWord spells a word so that systemd reads it as it is (systemd.service(5), "Command lines"). The
// escapes of Go are among those of systemd. Variables stay as they are: they are replaced later.
func quoteWord(word string) string {
	isPlain := word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return r > 'z' || r < '$' || strings.ContainsRune("'`;\\", r)
	})
	word = escapeSpecifiers(word)
	if isPlain {
		return word
	}
	return strconv.Quote(word)
}

func escapeSpecifiers(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// splitWords reads words that quoteWord has spelled.
func splitWords(line string) (words []string, err error) {
	for rest := line; rest != ""; {
		word, after, _ := strings.Cut(rest, " ")
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, err
			}
			word, err = strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			after = strings.TrimPrefix(rest[len(quoted):], " ")
		}
		words = append(words, strings.ReplaceAll(word, "%%", "%"))
		rest = after
	}
	return words, nil
}

// dropInName sorts after override.conf, which `systemctl edit` writes: the last ExecStart= counts.
const dropInName = "zz-mcpscope.conf"

func dropInOf(unit string) string { return path.Join(unit+".d", dropInName) }

func isDropInName(file string) bool { return path.Base(file) == dropInName }

// IsDropIn reports whether a file has the name and the text of a drop-in for a gateway.
func IsDropIn(file, text string) bool {
	return isDropInName(file) && strings.Contains(text, Written)
}
