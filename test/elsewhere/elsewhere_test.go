// SPDX-License-Identifier: Apache-2.0

// Package elsewhere runs real programs that start a daemon for later use: gpg-agent and an ssh master. The
// daemon stops with the server that started it. The tests run in a booted host, whose network is a loopback.
package elsewhere

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// sshd is unpacked by `.ci/deps extra`: its package would start and enable it.
const sshd = host.Shared + "/sshd"

func TestMain(m *testing.M) {
	host.Main(m, host.Options{Users: true, Build: func(dir string) error {
		if text, err := os.ReadFile("../../.cache/elsewhere/usr/sbin/sshd"); err == nil {
			if err := os.WriteFile(dir+"/sshd", text, 0o755); err != nil {
				return err
			}
		}
		return escape.Build(dir, nil)
	}})
}

func require(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%v: .ci/deps extra installs it", err)
	}
}

// Each script runs in an empty directory that is HOME as well.
var daemons = []struct {
	name, program, start string
	is                   string // part of the daemon's command line and of no other member's
	environ              func(t *testing.T) []string
}{
	{name: "gpg-agent", program: "gpg-agent", is: "gpg-agent --", start: `gpgconf --launch gpg-agent`},
	{
		name: "ssh", program: "ssh", is: "[mux]", environ: startSSHServer,
		start: `ssh -F none -i "$KEY" -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
			-o ControlMaster=auto -o ControlPersist=yes -o ControlPath="$HOME/m" -p "$SSHD" tester@127.0.0.1 true`,
	},
}

func TestSharedDaemons(t *testing.T) {
	for _, d := range daemons {
		t.Run(d.name, func(t *testing.T) {
			require(t, d.program)
			dir := host.Directory(t, host.Tester)
			script := `cd "$HOME" && { ` + d.start + `; } </dev/null >log 2>&1 && echo ready || cat log; read -r line`
			cmd := host.Current(t).Command(host.Tester, host.Shared+"/mcpscope", "run", "--name", d.name,
				"--term-grace", "300ms", "--", "sh", "-c", script)
			cmd.Env = append(cmd.Environ(), "HOME="+dir, "GNUPGHOME="+dir)
			if d.environ != nil {
				cmd.Env = append(cmd.Env, d.environ(t)...)
			}
			server := escape.StartTalk(t, cmd, cmd.Start)
			server.Hear("ready")
			scopes := host.Tester.Scopes(d.name)
			if len(scopes) != 1 {
				t.Fatalf("scopes: %q", scopes)
			}
			daemon := member(t, scopes[0], d.is)
			defer daemon.Close()
			_ = server.Stdin.Close()
			if !daemon.Ended(escape.Patience) {
				t.Errorf("left: %s", escape.Describe(daemon.PID))
			}
			if err := escape.AwaitRemoval(scopes[0], escape.Patience); err != nil {
				t.Error(err)
			}
		})
	}
}

// member finds the member of a server by a part of its command line.
func member(t *testing.T, scope, is string) *escape.Process {
	t.Helper()
	pids, err := escape.GroupPids(scope + "/payload")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		if !strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), is) {
			continue
		}
		p, err := escape.OpenProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Fatalf("no member is %q: %s", is, escape.Tree(scope))
	return nil
}

// startSSHServer runs sshd for Tester, whom it admits by a new key, until the end of the test.
func startSSHServer(t *testing.T) []string {
	t.Helper()
	program := "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		program = sshd
	}
	require(t, program)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String()) // it has both
	_ = listener.Close()                                      // sshd listens there; nothing else has this loopback
	key := host.Directory(t, host.Tester) + "/key"
	cmd := host.Current(t).Command(host.Tester, "sh", "-c", fmt.Sprintf(`ssh-keygen -q -t ed25519 -N '' -f %[1]s &&
		ssh-keygen -q -t ed25519 -N '' -f %[1]s.host && exec %[2]s -D -e -f /dev/null -h %[1]s.host -o PidFile=none \
		-o ListenAddress=127.0.0.1:%[3]s -o AuthorizedKeysFile=%[1]s.pub -o StrictModes=no 2>&1`, key, program, port))
	server := escape.StartTalk(t, cmd, cmd.Start)
	for !strings.HasPrefix(server.Line(), "Server listening") {
		continue
	}
	return []string{"SSHD=" + port, "KEY=" + key}
}
