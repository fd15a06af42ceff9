// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
)

// notContained is in the line that `mcpscope gateway` writes to the stderr of a gateway.
const notContained = " are NOT contained: "

// NotContained is the text of the note of a gateway whose servers cannot be contained.
func NotContained(gateway string, why error) string {
	return fmt.Sprintf("the servers of %q%s%v", gateway, notContained, why)
}

// WhyNotContained returns the reason in a line of a log, or "" for any other line.
func WhyNotContained(line string) string {
	before, why, _ := strings.Cut(strings.TrimSpace(line), notContained)
	if !strings.HasPrefix(before, "mcpscope: note: the servers of ") {
		return ""
	}
	return why
}
