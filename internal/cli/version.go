// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import "runtime"

// release and commit are set by the linker (-X …/internal/cli.release=…).
var release, commit = "", ""

// Devel is the version of a build without a release. The file may contain build information; the runner does
// not link the package that reads it.
const Devel = "devel"

// Version returns the version of the calling program.
func Version() string {
	if release != "" {
		return release
	}
	return Devel
}

// Built returns the commit, the Go version and the platform of the calling program.
func Built() string {
	built := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	if commit != "" {
		built = "commit " + commit + ", " + built
	}
	return built
}
