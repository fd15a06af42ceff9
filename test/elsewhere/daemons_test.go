// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A daemon is what a program leaves for the next that needs it. The scripts are run in a directory of their own,
// which is HOME as well; PORT is free.
type daemon struct {
	name    string
	program string // without it there is nothing to test
	start   string
	is      string // part of the daemon's command line, as of no other member's
	keep    string // the pattern that keeps it
	serves  string // prints the daemon's pid, asked of itself
	root    bool   // root's alone: it is slow to start, or tester must not see it
	needs   func(t *testing.T, dir string) []string
}

// mcporter is where .ci/deps has put it.
const mcporter = "../../.cache/elsewhere/node_modules/.bin/mcporter"

var daemons = []daemon{
	{
		name: "gpg-agent", program: "gpg-agent", is: "gpg-agent", keep: "gpg-agent",
		start:  `gpgconf --launch gpg-agent`,
		serves: `gpg-connect-agent --no-autostart 'getinfo pid' /bye`,
	},
	{
		name: "ssh", program: "ssh", is: "[mux]", keep: "ssh: *[mux]", needs: sshServer,
		start: `ssh -F none -i "$KEY" -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
			-o ControlMaster=auto -o ControlPersist=yes -o ControlPath="$HOME/m" -p "$SSHD" tester@127.0.0.1 true`,
		serves: `ssh -F none -o ControlPath="$HOME/m" -O check any 2>&1`,
	},
	{
		name: "adb", program: "adb", is: "fork-server", keep: "adb *fork-server*",
		start: `adb start-server`,
		// It has no command that says its pid; this one starts another if it does not answer, and says so.
		serves: `adb devices 2>&1 | grep -q 'not running' || pgrep -f "tcp:$ANDROID_ADB_SERVER_PORT fork-server"`,
	},
	{
		name: "gradle", program: "gradle", is: "GradleDaemon", keep: "*GradleDaemon*", root: true,
		start:  `touch settings.gradle && gradle --offline --daemon help`,
		serves: `gradle --offline --status`,
	},
	{
		name: "bazel", program: "bazel", is: "bazel(", keep: "bazel(*", root: true,
		start:  `touch WORKSPACE && bazel --output_user_root="$HOME/bazel" info server_pid`,
		serves: `bazel --output_user_root="$HOME/bazel" info server_pid`,
	},
	{
		name: "mcporter", program: mcporter, is: "daemon start --foreground", keep: "*mcporter*daemon start*", root: true,
		start: `echo '{"mcpServers": {"any": {"command": "cat", "lifecycle": "keep-alive"}}}' >mcporter.json
			"$MCPORTER" --config mcporter.json daemon start`,
		serves: `"$MCPORTER" --config mcporter.json daemon status`,
	},
}

// A daemon that a server has started ends with it and is named in the report; one that is to be kept is not.
func TestSharedDaemons(t *testing.T) {
	for _, u := range []host.User{host.Root, host.Tester} {
		for _, d := range daemons {
			if d.root && u != host.Root {
				continue
			}
			for name, end := range map[string]func(*started){"ended": (*started).wantEnded, "kept": (*started).wantKept} {
				t.Run(u.Name+"/"+d.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					require(t, d.program)
					end(&started{T: t, daemon: d, user: u, dir: host.Directory(t, u)})
				})
			}
		}
	}
}

// started is a daemon that runs in its server's group.
type started struct {
	*testing.T
	daemon
	user    host.User
	dir     string
	env     []string
	server  *server
	process *escape.Process
}

type member struct {
	PID           int
	Name, Command string
}

// report is what is asked of run's.
type report struct{ Daemons, Detached []member }

func (s *started) reportFile() string { return filepath.Join(s.dir, "report") }

// startIn has a server start it.
func (s *started) startIn(name string, flags ...string) {
	s.Helper()
	program, err := filepath.Abs(mcporter)
	if err != nil {
		s.Fatal(err)
	}
	s.env = []string{"MCPORTER=" + program, "HOME=" + s.dir, "GNUPGHOME=" + s.dir, "GRADLE_USER_HOME=" + s.dir + "/gradle", "ANDROID_ADB_SERVER_PORT=" + freePort(s.T)}
	if s.needs != nil {
		s.env = append(s.env, s.needs(s.T, host.Directory(s.T, host.Tester))...)
	}
	script := `cd "$HOME" && { ` + s.daemon.start + `; } </dev/null >log 2>&1 && echo ready || cat log; read -r l`
	s.server = start(s.T, s.user, name, s.env, append([]string{"--report", s.reportFile()}, flags...), "sh", "-c", script)
	for _, p := range s.server.payload {
		if line := commandLine(p); strings.Contains(line, s.is) && !strings.Contains(line, script) {
			if s.process != nil {
				s.Fatalf("%d and %d are %s", s.process.PID, p.PID, s.is)
			}
			s.process = p
		}
	}
	if s.process == nil {
		s.Fatalf("no member of %s is %s", s.server.scope, s.is)
	}
	s.Cleanup(func() { s.process.Signal(unix.SIGKILL) })
}

// end closes stdin, and returns what the report says when the server has ended.
func (s *started) end() (r report) {
	s.Helper()
	_ = s.server.stdin.Close()
	_ = s.server.cmd.Wait() // with the server's status
	if err := escape.AwaitFile(s.reportFile(), patience); err != nil {
		s.Fatal(err)
	}
	text, err := os.ReadFile(s.reportFile())
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		s.Fatalf("%v: %s", err, text)
	}
	return r
}

func (s *started) isIn(all []member) bool {
	return slices.ContainsFunc(all, func(m member) bool { return m.PID == s.process.PID && m.Name != "" })
}

func (s *started) wantEnded() {
	s.startIn(s.name + "-ended")
	r := s.end()
	if !s.process.Ended(0) {
		s.Errorf("it lives: %s", escape.Describe(s.process.PID))
	}
	s.server.gone(s.T, append(s.server.payload, s.server.supervisor...))
	if !s.isIn(r.Daemons) {
		s.Errorf("%d is not among the report's daemons: %+v", s.process.PID, r)
	}
}

func (s *started) wantKept() {
	s.startIn(s.name+"-kept", "--detach-command", s.keep)
	r := s.end()
	path, err := bed.ProcessPath(s.process.PID)
	if s.process.Ended(0) || err != nil {
		s.Fatalf("it has ended: %+v, %v", r, err)
	}
	unit := filepath.Base(path)
	if is, _ := filepath.Match("detached-*.scope", unit); !is { // the pattern is valid
		s.Fatalf("it is in %s", path)
	}
	s.Cleanup(func() { host.StopUnits(s.T, s.user, unit) })
	others := slices.DeleteFunc(s.server.payload, func(p *escape.Process) bool { return p == s.process })
	s.server.gone(s.T, append(others, s.server.supervisor...))
	if !s.isIn(r.Detached) {
		s.Errorf("%d is not among the report's detached: %+v", s.process.PID, r)
	}
	s.wantNoTag()
	cmd := host.Current(s.T).Command(s.user, "sh", "-c", s.serves)
	cmd.Env, cmd.Dir = append(cmd.Environ(), s.env...), s.dir
	words := func(r rune) bool { return r < '0' || r > '9' }
	if out, err := cmd.Output(); err != nil || !slices.Contains(strings.FieldsFunc(string(out), words), strconv.Itoa(s.process.PID)) {
		s.Errorf("%d does not serve: %v, %s", s.process.PID, err, out)
	}
	s.process.Signal(unix.SIGKILL)
	host.StopUnits(s.T, s.user, unit)
	if !s.process.Ended(patience) {
		s.Error("it outlives its unit")
	}
	if err := escape.AwaitRemoval(hierarchy+path, patience); err != nil {
		s.Error(err)
	}
}

// letOut is the limit of file locks that says so, and not whose it was.
const letOut = 0x6d6371 << 40

// wantNoTag checks that nothing says whose it was.
func (s *started) wantNoTag() {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.process.PID))
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if limits, is := strings.CutPrefix(line, "Max file locks"); is {
			if f := strings.Fields(limits); len(f) < 2 || f[0] != fmt.Sprint(int64(letOut)) {
				s.Errorf("it has the tag %s", limits)
			}
			return
		}
	}
	s.Errorf("no RLIMIT_LOCKS in %s", text)
}

// ports are below those that the kernel gives to whoever connects: a client that asks for a server at one of these, before that
// listens, can be given the same port, and talks to itself.
var ports atomic.Int32

// freePort is nobody's in this network namespace.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := fmt.Sprint(20000 + ports.Add(1))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close() // nobody has connected
			return port
		}
	}
	t.Fatal("no port from 20001 on is free")
	return ""
}

// sshServer runs one for tester, whom it lets in without being root, until the end of the test.
func sshServer(t *testing.T, dir string) []string {
	t.Helper()
	program := "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		program = sshd(host.Shared)
	}
	require(t, program)
	port, key := freePort(t), dir+"/key"
	script := fmt.Sprintf(`ssh-keygen -q -t ed25519 -N '' -f %[1]s && ssh-keygen -q -t ed25519 -N '' -f %[1]s.host && exec %[2]s -D -e -f /dev/null \
		-h %[1]s.host -o PidFile=none -o ListenAddress=127.0.0.1:%[3]s -o AuthorizedKeysFile=%[1]s.pub -o StrictModes=no`, key, program, port)
	cmd := host.Current(t).Command(host.Tester, "sh", "-c", script)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Start()
	_ = out.Close() // sshd's, or nobody's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = in.Close() // nothing of it is needed
	})
	var said strings.Builder
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if strings.HasPrefix(lines.Text(), "Server listening") {
			return []string{"SSHD=" + port, "KEY=" + key}
		}
	}
	t.Fatalf("sshd did not start: %s", said.String())
	return nil
}
