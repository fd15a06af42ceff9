// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/demo/session"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A clientCell is one client over one server, started in one way.
type clientCell struct{ client, server, way string }

func (c clientCell) String() string { return c.client + "/" + c.server + "/" + c.way }

var (
	clientNames = []string{"tssdk", "gosdk", "mcpgo", "pythonlike"}
	serverNames = []string{"everything", "filesystem", "memory"}
	launchWays  = []string{"npx", "node", "uvxlike"}
)

// onNode is the same client and server with nothing in between.
func (c clientCell) onNode() clientCell { return clientCell{c.client, c.server, "node"} }

// someCells has each client, each server and each way, and each server in each way; all of
// clientCells, if all is asked for.
func someCells() (cells []clientCell) {
	if escape.Full() {
		return clientCells(launchWays...)
	}
	for s, server := range serverNames {
		for w, way := range launchWays {
			cells = append(cells, clientCell{clientNames[(s+2*w)%len(clientNames)], server, way})
		}
	}
	return cells
}

// clientCells is every client × server, started in the ways.
func clientCells(ways ...string) (cells []clientCell) {
	for _, server := range serverNames {
		for _, way := range ways {
			for _, client := range clientNames {
				cells = append(cells, clientCell{client, server, way})
			}
		}
	}
	return cells
}

// clientBed is where the set-up has put the clients and the servers.
type clientBed struct{ bin, node string }

func openClientBed(t *testing.T) clientBed {
	t.Helper()
	cache := os.Getenv("TEST_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", ".cache")
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		t.Fatal(err)
	}
	b := clientBed{bin: filepath.Join(cache, "clients", "bin"), node: filepath.Join(cache, "clients", "node")}
	requireClients(t, b)
	return b
}

// requireClients skips only on a developer's machine: a CI without the clients
// would be green for nothing.
func requireClients(t *testing.T, b clientBed) {
	t.Helper()
	missing := func() error {
		_, binErr := os.Stat(b.bin)
		_, nodeErr := os.Stat(b.node)
		return errors.Join(binErr, nodeErr)
	}
	if err := missing(); err != nil && os.Getenv("CI") != "" {
		t.Fatalf("run test/e2e/clients/setup first: %v", err)
	}
	bed.Require(t, bed.Feature{Name: "the test clients, by test/e2e/clients/setup", Missing: missing})
}

// command is what a client's configuration would have as the server's command.
func (b clientBed) command(c clientCell) []string {
	var args []string
	if c.server == "filesystem" {
		args = []string{"."} // the directory that it may show
	}
	script := "node_modules/@modelcontextprotocol/server-" + c.server + "/dist/index.js"
	var command []string
	switch c.way {
	case "npx":
		command = []string{"npx", "-y", "@modelcontextprotocol/server-" + c.server}
	case "node":
		command = []string{"node", script}
	case "uvxlike":
		command = []string{filepath.Join(b.bin, "uvxlike"), "node", script}
	}
	return append(command, args...)
}

// A clientRun is a session in a world of its own.
type clientRun struct {
	*session.Session
	world  *world
	stderr string // path of the file
	mark   string // "" when bare
}

// bare starts the cell without mcpscope.
func (b clientBed) bare(t *testing.T, c clientCell) *clientRun {
	t.Helper()
	return b.start(t, c, "", b.command(c))
}

// contained starts the cell below mcpscope; flags are the client's.
func (b clientBed) contained(t *testing.T, c clientCell, flags ...string) *clientRun {
	t.Helper()
	mark := newMark()
	command := append([]string{binaries.mcpscope, "run", "--name", mark, "--"}, b.command(c)...)
	return b.start(t, c, mark, command, flags...)
}

var marks atomic.Int32

// newMark makes a server's name that is part of no other: the last letter sees to
// it that 1 is not found in 10.
func newMark() string { return fmt.Sprintf("cell%dx%dz", os.Getpid(), marks.Add(1)) }

func (b clientBed) start(t *testing.T, c clientCell, mark string, command []string, flags ...string) *clientRun {
	t.Helper()
	stderr, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	w := newWorld(t)
	group, err := os.Open(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	// In b.node npx finds the packages, and its settings. To enter the world is to
	// leave the working directory.
	client := append([]string{"env", "-C", b.node, filepath.Join(b.bin, c.client)}, flags...)
	s, err := session.Start(session.Config{
		Client: w.Command(client...).Args,
		Server: command,
		Stderr: stderr,
		Attr: &unix.SysProcAttr{
			UseCgroupFD:  true,
			CgroupFD:     int(group.Fd()),
			Unshareflags: unix.CLONE_NEWNET, // nothing here may need a network
		},
		Mark: mark,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &clientRun{Session: s, world: w, stderr: stderr.Name(), mark: mark}
	t.Cleanup(func() {
		if err := r.End(); err != nil && !t.Failed() {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("stderr of the client and its server:\n%s", r.readStderr(t))
		}
	})
	return r
}

func (r *clientRun) readStderr(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(r.stderr)
	if err != nil {
		t.Error(err)
	}
	return text
}

// hello waits until the client has talked to the server, and takes hold of all
// processes that are there then.
func (r *clientRun) hello(t *testing.T) session.Hello {
	t.Helper()
	hello, err := r.Hello()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Observe(); err != nil {
		t.Fatal(err)
	}
	return hello
}

// wantContained sees to it that the session really has a group.
func (r *clientRun) wantContained(t *testing.T) {
	t.Helper()
	inGroup := func(p *session.Process) bool { return strings.Contains(p.Cgroup, r.mark) }
	if !slices.ContainsFunc(r.Seen(), inGroup) {
		t.Errorf("no process was seen in a group: %v", r.Seen())
	}
}

// wantNothingLeft waits for everything of the session to be gone by the deadline:
// processes, then groups, and no word of ours among the server's.
func (r *clientRun) wantNothingLeft(t *testing.T, deadline time.Time) {
	t.Helper()
	left, err := r.Left(deadline)
	if err != nil {
		t.Error(err)
	}
	for _, p := range left {
		t.Errorf("left: process %d, %v, in %s", p.PID, p, p.Cgroup)
	}
	escape.WantNoServers(t, rootsSlice(r.world.Site), "*", time.Until(deadline))
	if stderr := r.readStderr(t); bytes.Contains(stderr, []byte("mcpscope:")) {
		t.Error("mcpscope wrote to the server's stderr")
	}
}

// eachCell runs test for every cell as a subtest. More at a time than there are
// CPUs: most of a cell's time is the wait for somebody's grace period.
func eachCell(t *testing.T, cells []clientCell, test func(*testing.T, clientCell)) {
	t.Helper()
	const atATime = 6
	places := make(chan struct{}, atATime)
	var running sync.WaitGroup
	for _, c := range cells {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(c.String(), func(t *testing.T) { test(t, c) })
		})
	}
	running.Wait()
}
