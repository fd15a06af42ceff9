// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// release and commit are set by the linker (-X …/internal/programs.release=…).
var release, commit = "", ""

// Version returns the version of the calling program. Without a release it is that of go install.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && release == "" && info.Main.Version != "" {
		return info.Main.Version
	}
	return cmp.Or(release, "(devel)")
}

// Built returns the commit, the Go version and the platform of the calling program.
func Built() string {
	built := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	if commit != "" {
		built = "commit " + commit + ", " + built
	}
	return built
}
