// SPDX-License-Identifier: Apache-2.0

//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// Server is a server of the calling user, whose processes can forge every field.
type Server struct {
	ID, Name string
	// State is "running", "terminating", "frozen" or "orphan".
	State   string
	Backend string
	// ClientPID and ClientName are the process that started the server.
	ClientPID  int
	ClientName string
	Started    time.Time
}

// List returns the servers of the calling user, the oldest first. Together with an error it returns those
// that could be read.
func List() ([]Server, error) {
	all, err := fleet.List(os.Getuid())
	servers := make([]Server, 0, len(all))
	for _, s := range all {
		servers = append(servers, Server{
			ID: s.ID, Name: s.Name, State: string(s.State), Backend: string(s.Backend),
			ClientPID: s.Client.PID, ClientName: s.Client.Name, Started: s.Started,
		})
		s.Close()
	}
	return servers, err
}

// ErrNotFound is the error of Stop for an id that no server has.
var ErrNotFound = errors.New("no such server")

// Stop stops the server with that id and returns when nothing of it is left: SIGTERM, the server's term
// grace, SIGKILL. A server that ended meanwhile is no error.
func Stop(id string) error {
	all, err := fleet.List(os.Getuid())
	err = errors.Join(ErrNotFound, err)
	for _, s := range all {
		defer s.Close()
		if s.ID == id {
			err = s.Stop(fleet.AsConfigured)
		}
	}
	if err != nil {
		return fmt.Errorf("stop %q: %w", id, err)
	}
	return nil
}

// Sweep stops the orphans of the calling user, and returns their ids.
func Sweep() (ids []string, err error) {
	swept, err := sweep.Sweep(sweep.SweepFilter{})
	for _, s := range swept {
		ids = append(ids, s.ID)
	}
	return ids, err
}
