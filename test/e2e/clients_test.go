// SPDX-License-Identifier: Apache-2.0

// The promise, with real clients and published servers: a server works below `mcpscope run` as it does without, and nothing
// survives its client, whether that says good-bye or is killed, whatever runs the server's package.
package e2e

import (
	"bytes"
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

// speaking is a server in the shell, with a tool and a daemon. It takes the address of Members.
const speaking = `setsid "$0" --register "$1" ignore-both </dev/null >/dev/null &
while read -r line; do
	id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	answer='"error":{"code":-32601,"message":"no such method"}'
	case $line in
	*'"initialize"'*)
		answer='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
	*'"tools/list"'*) answer='"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*) answer='"result":{"content":[{"type":"text","text":"hello"}]}' ;;
	esac
	test -z "$id" || echo '{"jsonrpc":"2.0","id":'"$id,$answer}"
done`

// A client on an SDK for Go, which takes neither npm nor a network. The others are below.
func TestServerEndsUnderAGoClient(t *testing.T) {
	b := openClientBed(t)
	for _, end := range []string{"closed", "killed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t), escape.NewMembers(t)
			cmd := w.Command(filepath.Join(b.bin, "gosdk"), "--", binaries.mcpscope, "run", "--", "sh", "-c", speaking, binaries.Zoo, m.Address)
			client := escape.StartTalk(t, cmd, func() error { return escape.StartIn(w.Dir, cmd) })
			if hello := client.Line(); !strings.Contains(hello, `"call":"ok","text":"hello"`) {
				t.Errorf("the client says %s", hello)
			}
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatal(err)
			}
			if end == "closed" {
				client.Tell("close")
			} else if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if n := m.UntilDead(escape.Patience); n > 0 {
				t.Errorf("left: %q", m.Survivors())
			}
			escape.WantNoServers(t, rootsSlice(w.Site), "*", escape.Patience)
			if end == "closed" && !strings.HasPrefix(client.Line(), "closed ") || client.Said() != "" {
				t.Errorf("the client does not close; stderr: %s", client.Said())
			}
		})
	}
}

// needsNpm skips a test of what npm has, but in the slices of a release.
func needsNpm(t *testing.T) {
	t.Helper()
	if !escape.Full() && os.Getenv("MCPSCOPE_TEST_SLICE") == "" {
		t.Skip("SKIP: clients and servers from npm: make test-full, or MCPSCOPE_TEST_SLICE=k/n")
	}
}

func TestServersWorkAndEndUnderRealClients(t *testing.T) {
	needsNpm(t)
	b := openClientBed(t)
	bare := map[clientCell]session.Hello{}
	var mu sync.Mutex
	answers := func(t *testing.T, c clientCell, flags ...string) *clientRun {
		t.Helper()
		mu.Lock()
		want, known := bare[c.onNode()]
		mu.Unlock()
		if !known { // without mcpscope; how the server is started makes no difference to what it answers
			want = b.start(t, c.onNode(), "", b.command(c.onNode())).hello(t)
			if want.Tools == 0 || want.Call != "ok" {
				t.Errorf("bare: %+v", want)
			}
			mu.Lock()
			bare[c.onNode()] = want
			mu.Unlock()
		}
		run := b.contained(t, c, flags...)
		if got := run.hello(t); len(flags) == 0 && got != want || got.Tools != want.Tools {
			t.Errorf("got %+v, bare %+v", got, want)
		}
		return run
	}
	eachCell(t, someCells(), func(t *testing.T, c clientCell) {
		for what, end := range map[string]func(*clientRun) error{
			"closed": func(r *clientRun) error { return r.Close() },
			"killed": func(r *clientRun) error { return r.Kill() },
		} {
			t.Run(what, func(t *testing.T) {
				run := answers(t, c)
				run.wantContained(t)
				if err := end(run); err != nil {
					t.Fatal(err)
				}
				run.wantNothingLeft(t)
			})
		}
		t.Run("crashed", func(t *testing.T) { // no call made, nothing closed; all may be over before there is anything to be seen
			run := answers(t, c, "--kill-after-list")
			if err := run.WaitKilled(); err != nil {
				t.Fatal(err)
			}
			run.wantNothingLeft(t)
		})
	})
}

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

// someCells has each client, each server and each way, and each server in each way; all, if all is asked for.
func someCells() (cells []clientCell) {
	for s, server := range serverNames {
		for w, way := range launchWays {
			for c, client := range clientNames {
				if escape.Full() || c == (s+2*w)%len(clientNames) {
					cells = append(cells, clientCell{client, server, way})
				}
			}
		}
	}
	return cells
}

// clientBed is where the set-up has put the clients and the servers.
type clientBed struct{ bin, node string }

// openClientBed skips only on a developer's machine: a CI without the clients would be green for nothing.
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
	missing := func() error {
		_, err := os.Stat(b.bin)
		return err
	}
	if err := missing(); err != nil && os.Getenv("CI") != "" {
		t.Fatalf("run test/e2e/clients/setup first: %v", err)
	}
	bed.Require(t, bed.Feature{Name: "the test clients, by test/e2e/clients/setup", Missing: missing})
	return b
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

// wantNothingLeft waits for everything of the session to be gone: processes, then groups, and no word of ours among the
// server's.
func (r *clientRun) wantNothingLeft(t *testing.T) {
	t.Helper()
	left, err := r.Left(time.Now().Add(escape.Patience))
	if err != nil {
		t.Error(err)
	}
	for _, p := range left {
		t.Errorf("left: process %d, %v, in %s", p.PID, p, p.Cgroup)
	}
	escape.WantNoServers(t, rootsSlice(r.world.Site), "*", escape.Patience)
	if stderr := r.readStderr(t); bytes.Contains(stderr, []byte("mcpscope:")) {
		t.Error("mcpscope wrote to the server's stderr")
	}
}

// eachCell runs test for every cell as a subtest, six at a time: most of a cell's time is somebody's grace period.
func eachCell(t *testing.T, cells []clientCell, test func(*testing.T, clientCell)) {
	t.Helper()
	var running sync.WaitGroup
	for lane := range 6 {
		running.Go(func() {
			for i := lane; i < len(cells); i += 6 {
				t.Run(cells[i].String(), func(t *testing.T) { test(t, cells[i]) })
			}
		})
	}
	running.Wait()
}
