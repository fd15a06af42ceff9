// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"

	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// start runs mcpscope run with flags that override settings files: require would refuse tree, and a limit
// could be too low, or not be had. A file that is nil stands for /dev/null.
func start(runner string, b names.Backend, files []*os.File, args ...string) (*os.Process, error) {
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
		"--memory-max", "max", "--cpu-max", "max", "--pids-max", "max", "--set", "memory.max=max",
	}
	attributes := &os.ProcAttr{Env: settings.ServerEnvironment(os.Environ()), Files: files}
	return os.StartProcess(runner, append(argv, args...), attributes)
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
