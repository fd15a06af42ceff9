package e2e

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// An end is a way in which a server's life is asked, or made, to be over.
type end struct {
	name string
	do   func(*cell)
	// Who is not there any more to report or to be waited for.
	killsLauncher, killsClient, killsSupervisor, killsGroup bool
}

var ends = []end{
	{name: "stdin", do: told("close")},
	{name: "TERM", do: told("signal 15")},
	{name: "INT", do: told("signal 2")},
	{name: "HUP", do: told("signal 1")},
	{name: "kill", killsLauncher: true, do: func(c *cell) { c.client.server.signal(unix.SIGKILL) }},
	{name: "killpg", killsLauncher: true, do: told("killpg 9")},
	{name: "tree", killsLauncher: true, killsClient: true, do: func(c *cell) { killTree(c.client.own) }},
	{name: "client", killsClient: true, do: func(c *cell) { c.client.own.signal(unix.SIGKILL) }},
	{name: "superv", killsSupervisor: true, do: killSupervisor},
	{name: "exit", killsClient: true, do: told("exit")},
	{name: "cgroup", killsLauncher: true, killsClient: true, killsGroup: true, do: killClientGroup},
}

func told(command string) func(*cell) {
	return func(c *cell) { c.client.tell("%s", command) }
}

// killSupervisor finds nobody in the mode that does it itself.
func killSupervisor(c *cell) {
	if c.supervisor != nil {
		c.supervisor.signal(unix.SIGKILL)
	}
}

func killClientGroup(c *cell) {
	c.t.Helper()
	file := filepath.Join(c.world.dir, "client", "cgroup.kill")
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		c.t.Fatal(err)
	}
}

// exempt tells whether members are known to be left. Who writes itself into
// another group, as root may, comes home to the supervisor, which is the
// subreaper; with a SIGKILL of the supervisor that is over.
func (c *cell) exempt(e end) bool {
	return !bare && e.killsSupervisor && c.mode.movesAway
}
