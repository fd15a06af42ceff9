// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/text"
)

// OneLine replaces characters that control the terminal in text from outside.
func OneLine(s string) string { return text.Printable(s) }

const plainCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%"

// Word quotes a word for a shell if that is necessary.
func Word(word string) string {
	if word != "" && strings.Trim(word, plainCharacters) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
