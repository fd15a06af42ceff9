// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// keepable is a program that people name to stay. The scripts are bash's. They run in a directory of the test, with a
// free port of 127.0.0.1 as PORT, and DISPLAY if display is set.
type keepable struct {
	pattern string
	needs   []string // programs, or files with a leading slash
	display bool     // of an X server
	before  string   // what the person has running or set up, and stays until the test's end
	start   string   // what the server does
	works   string   // succeeds while the program serves the person
	use     string   // a program of the person that uses it: its first line says so, and it stays. "" if a window is use enough
}

// connects is a bash script that stays connected to the port.
const connects = `exec 3<>/dev/tcp/127.0.0.1/$PORT && echo used && exec sleep infinity`

const (
	sshServer = `
ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f key
cat >sshd_config <<-END
	Port $PORT
	ListenAddress 127.0.0.1
	HostKey $PWD/host
	AuthorizedKeysFile $PWD/key.pub
	PidFile none
	StrictModes no
	UsePAM no
	PermitRootLogin yes
END
cat >ssh_config <<-END
	Host *
		Port $PORT
		User root
		IdentityFile $PWD/key
		StrictHostKeyChecking no
		UserKnownHostsFile /dev/null
		ControlPath ./m
		LogLevel ERROR
END
echo used
exec /usr/sbin/sshd -D -e -f sshd_config`

	devServer = `{"scripts": {"dev": "node -e 'require(\"http\").createServer((q, s) => s.end(\"works\")).listen(process.env.PORT, \"127.0.0.1\")'"}}`

	browser = `chromium --no-sandbox --no-first-run --disable-gpu --user-data-dir=$PWD/profile ` +
		`--remote-debugging-port=$PORT about:blank`
	listens      = ` until (: </dev/tcp/127.0.0.1/$PORT) 2>/dev/null; do sleep 0.1; done`
	browserWorks = `exec 3<>/dev/tcp/127.0.0.1/$PORT && ` +
		`printf 'GET /json/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3 && grep -q Browser <&3`

	// codeStarts is how the command code of Visual Studio Code starts its window, which is a Chromium.
	codeStarts = `[program, ...args] = process.argv.slice(1);` +
		` require("child_process").spawn(program, args, {detached: true, stdio: "ignore"}).unref()`
)

var keepables = map[string]keepable{
	"epmd": {
		pattern: "epmd", needs: []string{"epmd"},
		start: `epmd -daemon -port $PORT`, works: `epmd -port $PORT -names`, use: connects,
	},
	"adb": {
		pattern: "adb", needs: []string{"adb"},
		start: `adb -P $PORT start-server`,
		works: `exec 3<>/dev/tcp/127.0.0.1/$PORT && printf 000chost:version >&3 && [ "$(head -c 4 <&3)" = OKAY ]`,
		use:   `exec 3<>/dev/tcp/127.0.0.1/$PORT && printf 0012host:track-devices >&3 && head -c 4 <&3 && echo && exec cat <&3`,
	},
	"ssh": {
		pattern: "ssh", needs: []string{"ssh", "/usr/sbin/sshd", "/run/sshd"},
		before: sshServer,
		start:  `until ssh -F ssh_config -fNM 127.0.0.1; do sleep 0.1; done`,
		works:  `ssh -F ssh_config -O check 127.0.0.1`,
		use:    `sleep infinity | ssh -F ssh_config 127.0.0.1 'echo used; exec cat'`,
	},
	"tmux": {
		pattern: "tmux*", needs: []string{"tmux"},
		start: `tmux -S socket -f /dev/null new-session -d 'exec sleep infinity'`,
		works: `tmux -S socket has-session`,
		use:   `sleep infinity | tmux -S socket -C attach-session`,
	},
	"dev server": {
		pattern: "npm", needs: []string{"npm", "node"},
		start: `echo '` + strings.ReplaceAll(devServer, "'", `'\''`) + `' >package.json; setsid npm run dev </dev/null >dev.log 2>&1 &` +
			listens,
		works: `exec 3<>/dev/tcp/127.0.0.1/$PORT && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && grep -q works <&3`,
		use:   connects,
	},
	"window": {
		pattern: "xclock", needs: []string{"Xvfb", "xclock", "xlsclients"}, display: true,
		start: `setsid xclock </dev/null >clock.log 2>&1 & until xlsclients | grep -q xclock; do sleep 0.1; done`,
		works: `xlsclients | grep -q xclock`,
	},
	"browser": {
		pattern: "chrom*", needs: []string{"Xvfb", "chromium"}, display: true,
		start: `setsid ` + browser + ` </dev/null >browser.log 2>&1 &` + listens,
		works: browserWorks,
	},
	"code": {
		pattern: "chrom*", needs: []string{"Xvfb", "chromium", "node"}, display: true,
		start: `node -e '` + codeStarts + `' ` + browser + `;` + listens,
		works: browserWorks,
	},
}

// toldEnds are the ends before which mcpscope looks what others use. A SIGKILL of the launcher leaves no time for it.
var toldEnds = []string{"stdin", "TERM", "main", "client", "stop"}

// fewEnds are those of a slice.
var fewEnds = []string{"stdin", "main", "launcher and guard"}

var keepEnds = map[string]func(*keepTrial){
	"stdin":  func(k *keepTrial) { k.server.Tell("close") },
	"TERM":   func(k *keepTrial) { k.server.Tell("signal %d", unix.SIGTERM) },
	"main":   func(k *keepTrial) { first, _ := k.server.members.Main(); first.Signal(unix.SIGKILL) },
	"client": func(k *keepTrial) { k.server.Own.Signal(unix.SIGKILL) },
	"stop":   func(k *keepTrial) { k.world.run(k.world.mcpscope("stop", "server")) },
	"launcher": func(k *keepTrial) {
		k.awaitKept()
		k.server.Server.Signal(unix.SIGKILL)
	},
	"launcher and guard": func(k *keepTrial) {
		k.awaitKept()
		if err := escape.KillTogether(k.server.guard, k.server.Server); err != nil {
			k.t.Fatal(err)
		}
		gone := func() bool { return escape.AwaitRemoval(k.server.group, 0) == nil }
		escape.SweepUntil(gone, func() { k.world.run(k.world.mcpscope("sweep")) })
	},
}

// Real programs that a server starts for a person live through each end of the server and of its client if they are
// named, and mcpscope stop ends them. Unnamed ones end with the server, and the report says who used them.
func TestKeptPrograms(t *testing.T) {
	for name, program := range keepables {
		t.Run(name, func(t *testing.T) {
			for _, needed := range program.needs {
				bed.Require(t, bed.Feature{Name: needed, Missing: func() error { return lacking(needed) }})
			}
			for end := range keepEnds {
				if !escape.Full() && !slices.Contains(fewEnds, end) {
					continue
				}
				t.Run(end+", kept", func(t *testing.T) {
					t.Parallel()
					newKeepTrial(t, program, true).wantKept(end)
				})
				t.Run(end, func(t *testing.T) {
					t.Parallel()
					newKeepTrial(t, program, false).wantEnded(end)
				})
			}
		})
	}
}

func lacking(program string) error {
	if filepath.IsAbs(program) {
		_, err := os.Stat(program)
		return err
	}
	_, err := exec.LookPath(program)
	return err
}

// keepTrial is a server that has started a keepable program, which a person uses.
type keepTrial struct {
	t       *testing.T
	world   *world
	program keepable
	isKept  bool
	dir     string
	prelude string // of each script
	server  *server
	report  string
}

func newKeepTrial(t *testing.T, program keepable, isKept bool) *keepTrial {
	t.Helper()
	k := &keepTrial{t: t, world: newWorld(t), program: program, isKept: isKept, dir: t.TempDir()}
	k.report = filepath.Join(k.dir, "report")
	k.prelude = fmt.Sprintf("cd %s; export HOME=$PWD PORT=%d\n", k.dir, freePort(t))
	if program.display {
		k.startDisplay()
	}
	if program.before != "" {
		k.startAside(program.before)
	}
	k.startServer()
	if program.use != "" {
		k.startAside(program.use)
	}
	return k
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startServer starts a server that starts the program first, and waits until that works.
func (k *keepTrial) startServer() {
	k.t.Helper()
	script := filepath.Join(k.dir, "server")
	text := fmt.Sprintf("#!/bin/bash\n%s(%s) >&2\nexec %s \"$@\"\n", k.prelude, k.program.start, binaries.Zoo)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		k.t.Fatal(err)
	}
	flags := []string{"-v", "--report", k.report}
	if k.isKept {
		flags = append(flags, "--keep", k.program.pattern)
	}
	k.server = startServer(k.world, []string{"--group"}, flags, script, "plain")
	if !pace.Eventually(escape.Patience, k.works) {
		k.t.Fatalf("the program did not start: %s", escape.Contents(k.server.Stderr))
	}
}

func (k *keepTrial) bash(script string) *exec.Cmd {
	return k.world.Command("/bin/bash", "-c", k.prelude+script)
}

func (k *keepTrial) works() bool {
	k.t.Helper()
	return k.world.run(k.bash(k.program.works)).Status == 0
}

// startAside starts a program of the person, outside of the server, and waits for its first line.
func (k *keepTrial) startAside(script string) {
	k.t.Helper()
	output := escape.MemoryFile(k.t)
	cmd := k.bash(script)
	cmd.Stdout = output
	cmd.Stderr = output
	k.world.Start(k.world.Dir, cmd)
	go cmd.Wait()
	if !pace.Eventually(escape.Patience, func() bool { return escape.Contents(output) != "" }) {
		k.t.Fatalf("no line of %s", script)
	}
}

// startDisplay starts an X server of its own, which says its number.
func (k *keepTrial) startDisplay() {
	k.t.Helper()
	file := filepath.Join(k.dir, "display")
	cmd := k.bash("exec Xvfb -displayfd 1 -noreset -nolisten tcp >" + file + " 2>/dev/null")
	k.world.Start(k.world.Dir, cmd)
	go cmd.Wait()
	number := ""
	if !pace.Eventually(escape.Patience, func() bool {
		text, _ := os.ReadFile(file) // not yet
		number = strings.TrimSpace(string(text))
		return number != ""
	}) {
		k.t.Fatal("no X server")
	}
	k.prelude += "export DISPLAY=:" + number + "\n"
}

// keptIDs are the ids of what is listed as kept.
func (k *keepTrial) keptIDs() (ids []string) {
	k.t.Helper()
	var listed struct {
		Servers []struct{ ID, State string }
	}
	o := k.world.run(k.world.mcpscope("ls", "--json"))
	if err := json.Unmarshal([]byte(o.Stdout), &listed); err != nil {
		k.t.Fatalf("%v: %s%s", err, o.Stdout, o.Stderr)
	}
	for _, s := range listed.Servers {
		if s.State == "kept" {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func (k *keepTrial) awaitKept() {
	k.t.Helper()
	if k.isKept && !pace.Eventually(escape.Patience, func() bool { return len(k.keptIDs()) > 0 }) {
		k.t.Fatal("it is not listed as kept")
	}
}

func (k *keepTrial) end(how string) {
	k.t.Helper()
	keepEnds[how](k)
	k.server.members.WantDead(k.t)
	escape.WantEnded(k.t, k.server.Server, k.server.guard)
}

func (k *keepTrial) wantKept(end string) {
	k.t.Helper()
	k.end(end)
	if !k.works() {
		k.t.Error("it has ended with its server")
	}
	ids := k.keptIDs()
	k.world.run(k.world.mcpscope("sweep"))
	if !k.works() {
		k.t.Error("it was swept")
	}
	if len(ids) == 0 {
		k.t.Fatal("it is not listed as kept")
	}
	if o := k.world.run(k.world.mcpscope(append([]string{"stop"}, ids...)...)); o.Status != 0 {
		k.t.Errorf("stop: %s", o.Stderr)
	}
	if k.works() {
		k.t.Error("mcpscope stop has not ended it")
	}
	k.world.clean()
}

func (k *keepTrial) wantEnded(end string) {
	k.t.Helper()
	k.end(end)
	if k.works() {
		k.t.Error("it has not ended with its server")
	}
	k.world.clean()
	if !slices.Contains(toldEnds, end) {
		return
	}
	told, err := os.ReadFile(k.report)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		k.t.Fatal(err)
	}
	if !strings.Contains(string(told), `"in_use"`) {
		k.t.Errorf("the report names nobody who used it: %s", told)
	}
	if end != "client" && !strings.Contains(escape.Contents(k.server.Stderr), "keep = [") { // it holds our stderr
		k.t.Errorf("stderr has no line for keep: %s", escape.Contents(k.server.Stderr))
	}
}
