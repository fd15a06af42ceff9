// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"os"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// programs are the files for a trial.
type programs struct {
	runner string
	server string // mcpscopectl
}

func FindPrograms() (programs, error) {
	runner, err := cli.FindRunner()
	if err != nil {
		return programs{}, err
	}
	server, err := cli.Own()
	return programs{runner, server}, err
}

// start runs mcpscope run with flags that override settings files: require would refuse tree. A file that is
// nil stands for /dev/null.
func (p programs) start(b protocol.Backend, files []*os.File, args ...string) (*os.Process, error) {
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
	argv := []string{"mcpscope", "run", "--require=false", "--name", "doctor", "--backend", string(b)}
	how := &os.ProcAttr{Env: settings.ServerEnvironment(os.Environ()), Files: files}
	return os.StartProcess(p.runner, append(argv, args...), how)
}
