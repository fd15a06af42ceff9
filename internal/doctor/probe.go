// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Commands of a trial: the server, which prints its position and ends with its stdin, and a gateway that
// starts this server.
const (
	ProbeCommand        = "probe"
	GatewayProbeCommand = "gateway-probe"
)

// Position is the group of a process, and the controllers of the group above it: those are for the limits of
// a server.
type Position struct {
	Cgroup      string   `json:"cgroup,omitempty"`
	Controllers []string `json:"controllers,omitempty"`
}

// OwnPosition returns the position of this process.
func OwnPosition() Position {
	var p Position
	p.Cgroup, _ = proc.ReadCgroup(0) // "" without /proc
	root, path, err := group.Position(0)
	if err != nil {
		return p
	}
	defer root.Close()
	above, err := root.Child(filepath.Join(".", filepath.Dir(path)))
	if err != nil {
		return p
	}
	defer above.Close()
	list, _ := above.Read("cgroup.controllers") // no controller, if it cannot be read
	p.Controllers = strings.Fields(string(list))
	return p
}

// RunProbe is the gateway of a trial: it starts a probe with the same stdin, and waits for its end.
func RunProbe(out, err io.Writer) error {
	server := exec.Command("/proc/self/exe", ProbeCommand)
	server.Args[0] = names.Trial // a server that is called mcpscopectl would pass for a launcher
	server.Stdin = os.Stdin
	server.Stdout = out
	server.Stderr = err
	return server.Run()
}
