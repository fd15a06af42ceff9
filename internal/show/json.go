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

// printJSON writes v, with indentation if that is asked for. Package json escapes no more than
// it must; JSON has its strings alone for what we escape beside that.
func PrintJSON(out io.Writer, v any, indent string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	unsafe := func(r rune) bool { return r != '\n' && cli.Acts(r) }
	if bytes.ContainsFunc(text.Bytes(), unsafe) {
		text = EscapedJSON(text, unsafe)
	}
	_, err := out.Write(text.Bytes())
	return err
}

// showJSON prints one object, and returns the status of the command whose goal that is.
func ShowJSON(io cli.Stdio, goal string, object any) int {
	if err := PrintJSON(io.Out, object, "  "); err != nil {
		return io.Cannot(goal, err)
	}
	return cli.ExitOK
}

// escapedJSON is the text with these characters, all below U+FFFF, as JSON writes them.
func EscapedJSON(text bytes.Buffer, them func(rune) bool) (safe bytes.Buffer) {
	for _, r := range text.String() {
		if them(r) {
			fmt.Fprintf(&safe, `\u%04x`, r)
			continue
		}
		safe.WriteRune(r)
	}
	return safe
}
