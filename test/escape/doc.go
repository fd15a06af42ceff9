// SPDX-License-Identifier: Apache-2.0

// Package escape has the escape table: each way to stay alive (a mode of the zoo) against
// each way to end a server, with bystanders that nothing may happen to. Where the groups
// come from is a Backend, and what surrounds a cell a Site; the table does not care.
//
// Clients written in C start mcpscope as MCP clients do, servers that refuse to die run below
// it, and every process of theirs reports itself by a pidfd at birth, so that nothing it
// does can hide it. The parts serve other tests from outside as well.
//
// Like bed, the package knows the product by its command line and its groups alone, and
// imports none of it.
package escape

import "time"

// Patience is how long anything may take that must happen, on the clock of package pace: nothing takes this long when
// all is well.
const Patience = 15 * time.Second
