// SPDX-License-Identifier: Apache-2.0

package name

import "path"

// IsMcpscope reports whether a program is one of the two of mcpscope. For run and gateway mcpscopectl
// executes mcpscope.
func IsMcpscope(program string) bool {
	base := path.Base(program)
	return base == "mcpscope" || base == "mcpscopectl"
}

// IsRun reports whether a command line is that of mcpscope run: a launcher, or the start of one.
func IsRun(argv []string) bool {
	return len(argv) > 1 && IsMcpscope(argv[0]) && argv[1] == "run"
}
