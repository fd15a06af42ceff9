// SPDX-License-Identifier: Apache-2.0

// Package escape has the escape table: each way to stay alive (a mode of the zoo) against
// each way to end a server, beside bystanders that must not be hurt. A Backend is the source
// of the groups and a Site is the place of a cell; the table is the same for all of them.
//
// Clients written in C start mcpscope as MCP clients do. The servers below it refuse to die.
// Each of their processes reports itself by a pidfd at birth, so that it cannot hide later.
// Other tests from outside use the same parts.
//
// Like bed, the package uses only the product's command line and groups, and imports none of
// its packages.
package escape

import "time"

// Patience is how long any expected event may take, on the clock of package pace. Nothing takes this long
// when all is well.
const Patience = 15 * time.Second
