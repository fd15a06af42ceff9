// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

// Browser is how BROWSER ends that mcpscope run offers to a server: the address is opened outside of it. The service
// that does so has no such BROWSER, so that xdg-open(1) looks for the user's.
const Browser = " detach -- xdg-open %s"
