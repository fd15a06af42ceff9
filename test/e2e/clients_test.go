// SPDX-License-Identifier: Apache-2.0

// The promise, with real clients and published servers: a server works as without mcpscope, and never
// survives its client. It does not matter how the client ends, and which runner starts the server's package.
package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// A session is a client that has printed its server's answers, in a world of its own.
type session struct {
	*escape.Talk
	world        *world
	group, hello string
}

func (b clientBed) start(t *testing.T, attr unix.SysProcAttr, client string, flags, command []string) *session {
	t.Helper()
	s := &session{world: newWorld(t)}
	s.group = s.world.Unique("client")
	// in b.node npx finds the packages, and its settings
	line := append([]string{"env", "-C", b.node, filepath.Join(b.bin, client)}, flags...)
	cmd := s.world.Command(append(append(line, "--"), command...)...)
	cmd.SysProcAttr = &attr
	s.Talk = escape.StartTalk(t, cmd, func() error { return escape.StartIn(s.group, cmd) })
	s.hello = s.Line()
	return s
}

// end closes the session or kills the client. Then nothing is left, and mcpscope wrote nothing to stderr.
func (s *session) end(t *testing.T, how string) {
	t.Helper()
	switch how {
	case "closed":
		s.Tell("close")
		if line := s.Line(); !strings.HasPrefix(line, "closed ") {
			t.Errorf("the client says %q", line)
		}
	case "killed":
		if err := s.Cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	_ = s.Cmd.Wait() // killed, perhaps
	escape.WantNoServers(t, rootsSlice(s.world.Site), "*", escape.Patience)
	if err := bed.WaitEmpty(s.group, escape.Patience); err != nil {
		t.Errorf("left: %v: %s", err, escape.Tree(s.group))
	}
	if strings.Contains(s.Said(), "mcpscope:") {
		t.Errorf("mcpscope wrote to the server's stderr: %s", s.Said())
	}
}

// A client on an SDK for Go, which takes neither npm nor a network. The others are below.
func TestServerEndsUnderAGoClient(t *testing.T) {
	b := openClientBed(t, "bin")
	for _, end := range []string{"closed", "killed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			m := escape.NewMembers(t)
			s := b.start(t, unix.SysProcAttr{}, "gosdk", nil, []string{binaries.mcpscope, "run", "--", "sh", "-c", speaking, binaries.Zoo, m.Address})
			if !strings.Contains(s.hello, `"call":"ok","text":"hello"`) {
				t.Errorf("the client says %s", s.hello)
			}
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatal(err)
			}
			s.end(t, end)
			if left := m.Running(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

func TestServersWorkAndEndUnderRealClients(t *testing.T) {
	if escape.Core() {
		t.Skip("SKIP: clients and servers from npm: make test-full, or TESTS_SLICE=k/n")
	}
	b := openClientBed(t, "bin", "node")
	offline := unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNET}
	for _, c := range someCells() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			defer escape.Slots.Take(2)()
			bare := b.start(t, offline, c.client, nil, b.command(clientCell{c.client, c.server, "node"})) // how it is started makes no difference
			if !strings.Contains(bare.hello, `"call":"ok"`) {
				t.Errorf("bare: %s", bare.hello)
			}
			contained := append([]string{binaries.mcpscope, "run", "--"}, b.command(c)...)
			for _, end := range []string{"closed", "killed"} {
				s := b.start(t, offline, c.client, nil, contained)
				if s.hello != bare.hello {
					t.Errorf("got %s, bare %s", s.hello, bare.hello)
				}
				if len(s.world.groups()) != 1 {
					t.Errorf("the server is in no group: %v", s.world.groups())
				}
				s.end(t, end)
			}
			// no call made, nothing closed; all may be over before there is anything to be seen
			b.start(t, offline, c.client, []string{"--kill-after-list"}, contained).end(t, "crashed")
		})
	}
}

// A client's day with pauses, in each of which the server is frozen: it gets the same answers as at first.
func TestIdleServersUnderRealClients(t *testing.T) {
	if escape.Core() {
		t.Skip("SKIP: clients and servers from npm: make test-full, or TESTS_SLICE=k/n")
	}
	b := openClientBed(t, "bin", "node")
	offline := unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNET}
	for i, client := range clientNames {
		server := serverNames[i%len(serverNames)]
		t.Run(client+"/"+server, func(t *testing.T) {
			t.Parallel()
			defer escape.Slots.Take(2)()
			command := b.command(clientCell{client, server, launchWays[i%len(launchWays)]})
			s := b.start(t, offline, client, nil, append([]string{binaries.mcpscope, "run", "--idle-freeze", "50ms", "--"}, command...))
			groups := s.world.groups()
			if len(groups) != 1 {
				t.Fatalf("groups: %v", groups)
			}
			for wakes := range 24 {
				if err := escape.AwaitIdle(groups[0], wakes, escape.Patience); err != nil {
					t.Fatal(err)
				}
				for range 1 + wakes%3 {
					s.Tell("call")
				}
				for range 1 + wakes%3 {
					if line := s.Line(); line != s.hello {
						t.Fatalf("got %s, at first %s; stderr: %s", line, s.hello, s.Said())
					}
				}
			}
			s.end(t, "closed")
		})
	}
}

// A clientCell is one client over one server, started in one way.
type clientCell struct{ client, server, way string }

func (c clientCell) String() string { return c.client + "/" + c.server + "/" + c.way }

var (
	clientNames = []string{"tssdk", "gosdk", "mcpgo", "pythonlike"}
	serverNames = []string{"everything", "filesystem", "memory"}
	launchWays  = []string{"npx", "node", "uvxlike"}
)

// someCells has each client, and each server in each way. A full run has all combinations.
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

// openClientBed needs these parts of it.
func openClientBed(t *testing.T, parts ...string) clientBed {
	t.Helper()
	dir := escape.Clients(t, parts...)
	return clientBed{bin: filepath.Join(dir, "bin"), node: filepath.Join(dir, "node")}
}

// command is the server's command in a client's configuration.
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
