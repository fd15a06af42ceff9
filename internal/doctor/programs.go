// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Programs are the files for a trial.
type Programs struct {
	runner string
	tool   string // mcpscopectl
}

// FindPrograms finds both programs of this installation.
func FindPrograms() (Programs, error) {
	runner, err := programs.FindRunner()
	if err != nil {
		return Programs{}, err
	}
	server, err := programs.Own()
	if err != nil {
		return Programs{}, err
	}
	return Programs{runner: runner, tool: server}, nil
}

// start runs mcpscope run with flags that override settings files: require would refuse tree, and a limit
// without its controller every backend. A file that is nil stands for /dev/null.
func (p Programs) start(b names.Backend, files []*os.File, args ...string) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	for i, f := range files {
		if f == nil {
			files[i] = null
		}
	}
	argv := []string{
		"mcpscope", "run", "--require=false", "--name", names.Trial, "--backend", string(b),
	}
	argv = append(argv, withoutLimits...)
	attributes := &os.ProcAttr{Env: settings.ServerEnvironment(os.Environ()), Files: files}
	return os.StartProcess(p.runner, append(argv, args...), attributes)
}

// withoutLimits are flags that override those of settings files, which could be too low for the server of a
// trial, or not be had.
var withoutLimits = []string{
	"--memory-max", "max", "--cpu-max", "max", "--pids-max", "max", "--set", "memory.max=max",
}

// startGateway starts a gateway whose server is known by its name. Flags override settings files, whose
// exceptions could leave it alone. session are more of them.
func (p Programs) startGateway(b names.Backend, session []string, files []*os.File) (*os.Process, error) {
	require := strconv.FormatBool(b != names.Tree) // which it refuses
	argv := []string{
		programs.Runner, "gateway", "--require=" + require, "--backend", string(b),
		"--match", names.Trial, "--except", "",
		"--explain", "fd:3",
	}
	argv = append(argv, withoutLimits...)
	argv = append(argv, session...)
	argv = append(argv, "--", p.tool, GatewayProbeCommand)
	attributes := &os.ProcAttr{Env: settings.ServerEnvironment(os.Environ()), Files: files}
	return os.StartProcess(p.runner, argv, attributes)
}

// pipe is a pipe of which a child gets one end.
type pipe struct{ read, write *os.File }

func newPipe() (pipe, error) {
	read, write, err := os.Pipe()
	return pipe{read, write}, err
}

// close closes both files. A file that was closed before stays closed.
func (p pipe) close() {
	_ = p.read.Close()
	_ = p.write.Close()
}
