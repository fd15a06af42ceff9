// SPDX-License-Identifier: Apache-2.0

package cli

import "github.com/mcpscope/mcpscope/internal/text"

// OneLine replaces characters that control the terminal in text from outside.
func OneLine(s string) string { return text.Printable(s) }
