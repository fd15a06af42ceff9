// SPDX-License-Identifier: Apache-2.0

package units

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"
)

// A Service contains the properties of a unit that its drop-in preserves.
type Service struct {
	// Argv is the command, with variables as the unit has them.
	Argv []string
	// Prefix has the characters that stand before it in ExecStart= (systemd.service(5)).
	Prefix string
	// Identifier is SyslogIdentifier=, or "" for systemd's default.
	Identifier string
}

// Gateway is a drop-in for the service of a gateway.
func Gateway(unit string, s Service, by Programs) File {
	var words []string
	for _, word := range s.Argv {
		words = append(words, Quote(word))
	}
	identifier := cmp.Or(s.Identifier, path.Base(s.Argv[0]))
	return File{dropInOf(unit), strings.NewReplacer(
		"@PREFIX@", s.Prefix, "@COMMAND@", strings.Join(words, " "),
		"@IDENTIFIER@", strings.ReplaceAll(identifier, "%", "%%"),
	).Replace(text("gateway.conf", by))}
}

// Quote spells a word of a command as a unit file has it (systemd.syntax(7)). Variables stay ones.
func Quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@+=:,./-${}"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	var b strings.Builder
	for i := range len(word) {
		switch c := word[i]; {
		case c == '%':
			b.WriteString("%%") // a specifier, otherwise
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// flagPrefixes are ExecStartEx's flags, as characters of ExecStart=.
var flagPrefixes = map[string]string{
	"ignore-failure": "-", "privileged": "+", "no-setuid": "!", "ambient": "!!", "no-env-expand": ":",
}

// ErrPrefix is of a command that can't be put behind another one.
var ErrPrefix = errors.New("its ExecStart= has a prefix that mcpscope does not know")

// Prefix spells the flags that a manager has of a command.
func Prefix(flags []string) (string, error) {
	text := ""
	for _, flag := range flags {
		prefix, known := flagPrefixes[flag]
		if !known {
			return "", fmt.Errorf("%w: %s", ErrPrefix, flag)
		}
		text += prefix
	}
	return text, nil
}

func dropInOf(unit string) string { return path.Join(unit+".d", "mcpscope.conf") }
