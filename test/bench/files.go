// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import "github.com/mcpscope/mcpscope/test/host"

const cgroups = "/sys/fs/cgroup"

// What was built for the run.
const (
	mcpscopeFile  = host.Shared + "/mcpscope"
	wrapperFile   = host.Shared + "/wrapper"
	serverFile    = host.Shared + "/server"
	floorFile     = host.Shared + "/floor"
	crowdFile     = host.Shared + "/crowd"
	twoWritesFile = host.Shared + "/twowrites"
	walkFile      = host.Shared + "/walk"
)
