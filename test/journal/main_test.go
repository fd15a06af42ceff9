// SPDX-License-Identifier: Apache-2.0

// Package journal tests what mcpscope writes to systemd's journal and reads from it, with the
// real journald of a booted host (test/host).
package journal

import (
	"os/exec"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// patience is for what happens at once, on a machine under load.
const patience = 30 * time.Second

var mcpscope = host.Shared + "/mcpscope"

func TestMain(m *testing.M) {
	host.Main(m, host.Options{Users: true, Build: build, Setups: []bed.Setup{host.JournalOnDisk}})
}

func build(dir string) error {
	return escape.Build(dir, map[string][]string{"like": escape.Go("../gateway/like")})
}

// A backend is one way to start a server, by one user.
type backend struct {
	name string
	user host.User
}

// backends are those of a host with both managers.
var backends = []backend{
	{"cgroup", host.Root}, {"systemd-system", host.Root}, {"systemd-user", host.Tester}, {"tree", host.Tester}, {"delegated", host.Root},
}

// onEach runs a test on each backend.
func onEach(t *testing.T, test func(t *testing.T, b backend)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { test(t, b) })
	}
}

// command is one of mcpscope's, run by the backend's user.
func (b backend) command(t *testing.T, args ...string) *exec.Cmd {
	return host.Current(t).Command(b.user, append([]string{mcpscope}, args...)...)
}
