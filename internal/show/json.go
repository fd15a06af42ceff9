// SPDX-License-Identifier: Apache-2.0

//go:build linux

package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// jsonVersion is that of all JSON about servers, in which fields are only ever added.
const jsonVersion = 1

// JSON prints an object with a version and servers. It returns the exit status of the command with that goal.
func JSON[T any](io cli.Stdio, goal string, servers []T) int {
	object := struct {
		Version int `json:"version"`
		Servers []T `json:"servers"`
	}{jsonVersion, append([]T{}, servers...)}
	if err := PrintJSON(io.Out, object, "  "); err != nil {
		return io.Cannot(goal, err)
	}
	return cli.ExitOK
}

// PrintJSON writes v. With an indentation, it is printed on several lines.
func PrintJSON(out io.Writer, v any, indent string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(SafeJSON(text.Bytes()))
	return err
}

// SafeJSON escapes what a terminal would act on and package json leaves: all below U+FFFF, and in strings
// alone.
func SafeJSON(text []byte) []byte {
	unsafe := func(r rune) bool { return r != '\n' && cli.Acts(r) }
	if !bytes.ContainsFunc(text, unsafe) {
		return text
	}
	var safe bytes.Buffer
	for _, r := range string(text) {
		if unsafe(r) {
			fmt.Fprintf(&safe, `\u%04x`, r)
			continue
		}
		safe.WriteRune(r)
	}
	return safe.Bytes()
}
