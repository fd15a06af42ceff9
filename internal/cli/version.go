// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import "runtime"

// release and commit are set by the linker (-X …/internal/cli.release=…).
var release, commit = "", ""

// Devel is the version of what no release was linked into. The build information in the file may
// say more; the runner does without the package that reads it.
const Devel = "devel"

// Version is that of the calling program.
func Version() string {
	if release != "" {
		return release
	}
	return Devel
}

// Built says what the calling program was built from, with and for.
func Built() string {
	built := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	if commit != "" {
		built = "commit " + commit + ", " + built
	}
	return built
}
