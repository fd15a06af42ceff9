// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// In each kind of container mcpscope takes the best backend that there is, nothing
// survives in it, and it can be the first process. All but the last of each engine's has
// a read-only cgroupfs.
func TestContainers(t *testing.T) {
	if !strings.HasSuffix(suite, "+containers") {
		return // there is no engine
	}
	startDocker(t)
	root := rootFS(t)
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			e.t = t
			e.load(root)
			for _, c := range e.containers {
				t.Run(c.name, func(t *testing.T) {
					e.t = t
					nothingLeft(e.engine, c, e.name)
					asFirst(e.engine, c)
					belowGateway(e.engine, c)
				})
			}
		})
	}
}

// diagnosis has the fields of doctor that matter here.
type diagnosis struct {
	Backend  string
	Host     struct{ Init struct{ Reaps bool } }
	Selftest []struct {
		Child, End, Problem string
		Passed              bool
	}
}

// nothingLeft runs doctor in a container that has been started before, and looks into its
// group from outside.
func nothingLeft(e engine, c container, engine string) {
	t := e.t
	t.Helper()
	id, dir := e.start(c)
	before := inside(t, dir)
	var out, said bytes.Buffer
	cmd := e.command("exec", id, "mcpscope", "doctor", "--json")
	if c.whole {
		cmd = e.command("exec", id, "mcpscope", "doctor", "--json", "--selftest")
	}
	cmd.Stdout = &out
	cmd.Stderr = &said
	ended := cmd.Run()
	var d diagnosis
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Backend != c.backend || d.Host.Init.Reaps != c.reaps {
		t.Fatalf("doctor: %v, %v, want backend %s, init that reaps: %v; stdout: %s; stderr: %s", ended, err, c.backend, c.reaps, &out, &said)
	}
	left := afterwards(t, dir, before)
	for _, what := range left {
		t.Errorf("left: %s", what)
	}
	if c.whole {
		d.selftested(t, fmt.Sprintf("%s, %s, backend %s", engine, c.name, d.Backend), len(left))
	}
}

// start starts a container, and returns the directory of its group.
func (e engine) start(c container) (id, dir string) {
	e.t.Helper()
	line := slices.Concat([]string{"run", "--detach", "--network=none"}, c.flags, []string{image, "sleep", "100000"})
	id = e.well(line...)
	e.t.Cleanup(func() {
		e.well("kill", id) // podman would ask sleep first, and wait
		e.well("rm", "--force", id)
	})
	path, err := bed.ProcessPath(e.first(id))
	if err != nil {
		e.t.Fatal(err)
	}
	return id, filepath.Join(bed.Root(e.t), path)
}

// fiveServers is a gateway that ends without its servers, whose stdin is held by tools that end with it. Each server
// ignores the end of its stdin and SIGTERM, and leaves a process in a session of its own. sleep 300 is a tool that stays.
const fiveServers = `
for i in 1 2 3 4 5; do
	while kill -0 $$ 2>/dev/null; do sleep 0.1; done |
		sh -c 'trap "" TERM HUP; setsid sleep 1000 & exec sleep 1001' demo-server | sleep 300 &
done
servers=0
until [ "$servers" = 5 ]; do
	servers=-1 # the line of titles
	servers=$(mcpscope ls | while read -r line; do servers=$((servers + 1)); echo $servers; done)
	servers=${servers##*[!0-9]}
done
echo all`

// belowGateway: the servers of a gateway in a container end with it, and processes of its tools stay.
func belowGateway(e engine, c container) {
	t := e.t
	t.Helper()
	id, dir := e.start(c)
	ofServers := []string{"sleep 100", "demo-server"}
	own := commands(dir, ofServers...) // the container's sleep 100000, and an init that has it as an argument
	line := []string{"exec", id, "mcpscope", "gateway", "--match", "*demo-server*", "--", "sh", "-c", fiveServers}
	cmd := e.command(line...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || string(out) != "all\n" {
		t.Fatalf("the gateway: %v; stdout: %s; stderr: %s", err, out, said.String())
	}
	const weaker = "contained without cgroups"
	if isTree := c.backend == "tree"; strings.Contains(said.String(), weaker) != isTree {
		t.Errorf("backend %s; stderr: %s", c.backend, said.String())
	}
	var servers, tools []string
	pace.Eventually(escape.Patience, func() bool {
		servers = commands(dir, ofServers...)
		tools = commands(dir, "sleep 300")
		return len(servers) <= len(own)
	})
	if len(own) == 0 || len(servers) != len(own) || len(tools) == 0 {
		said, _ := e.command("exec", id, "mcpscope", "ls").CombinedOutput() // which may say why
		t.Errorf("the container's own: %q; left with the servers: %q; of the tools: %q; %s", own, servers, tools, said)
	}
	table := fmt.Sprintf("\nbelow a gateway, %s, backend %s\n5 servers, %d processes left\n", t.Name(), c.backend, len(servers)-len(own))
	if err := escape.AppendTable(table); err != nil {
		t.Error(err)
	}
}

// The container is one with no_new_privs, and the engine has a profile of AppArmor of its own: no process of it may signal
// another one. Nothing would stop a server there, so mcpscope starts none, and says why. A gateway runs, and says so, too.
func TestNoSignals(t *testing.T) {
	if !strings.HasSuffix(suite, "+containers") {
		return // there is no engine
	}
	e := engine{t: t, argv: podman, user: host.Root}
	e.load(rootFS(t))
	for command, status := range map[string]int{"run": 125, "gateway": 0} {
		line := []string{"run", "--rm", "--network=none", "--security-opt=no-new-privileges", image, "mcpscope", command, "--", "sh", "-c", "echo up"}
		cmd := e.command(line...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, _ := cmd.Output() // the status is compared
		isRun := string(out) == "up\n"
		if got := cmd.ProcessState.ExitCode(); got != status || isRun != (status == 0) || !strings.Contains(said.String(), "AppArmor") {
			t.Errorf("%s: status %d, stdout %q, stderr: %s", command, got, out, &said)
		}
	}
}

// commands are the command lines of the processes in a group and below that contain one of the texts.
func commands(dir string, texts ...string) (found []string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // a removed group has no members
		}
		pids, _ := escape.GroupPids(path)
		for _, pid := range pids {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // "", if it has ended
			line := strings.ReplaceAll(string(text), "\x00", " ")
			if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
				found = append(found, line)
			}
		}
		return nil
	})
	return found
}

// selftested checks the selftest, and adds its table.
func (d diagnosis) selftested(t *testing.T, what string, left int) {
	t.Helper()
	clean := 0
	for _, s := range d.Selftest {
		if s.Passed {
			clean++
		} else {
			t.Errorf("%s, %s: %s", s.Child, s.End, s.Problem)
		}
	}
	cells := len(d.Selftest)
	if cells != 6 {
		t.Errorf("%d servers, want 6", cells)
	}
	if err := escape.AppendTable(fmt.Sprintf("\nselftest, %s\n%d cells, %d with nothing left, 0 exempt; %d left\n",
		what, cells, clean, left)); err != nil {
		t.Error(err)
	}
}

// afterwards are the new members of a group. Guards may take a moment.
func afterwards(t *testing.T, dir string, before []string) (left []string) {
	t.Helper()
	pace.Eventually(escape.Patience, func() bool { // groups below come and go
		left = slices.DeleteFunc(inside(t, dir), func(what string) bool { return slices.Contains(before, what) })
		return len(left) == 0
	})
	return left
}

// inside describes the processes in a group and below, and the groups of servers.
func inside(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // a removed group has no members
		}
		if strings.HasPrefix(d.Name(), "mcp-") {
			found = append(found, path)
		}
		pids, _ := escape.GroupPids(path)
		for _, pid := range pids {
			found = append(found, fmt.Sprintf("process %d in %s", pid, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// asFirst runs a server whose launcher is the first process of a container, or the child of
// its init. The server leaves a process behind that has to be killed.
func asFirst(e engine, c container) {
	t := e.t
	t.Helper()
	const server = `setsid sh -c 'trap "" TERM; echo up; sleep 100000' <&- & read line; exit 7`
	cmd := e.command(slices.Concat([]string{"run", "--rm", "--interactive", "--network=none"}, c.flags,
		[]string{image, "mcpscope", "run", "--report", "/dev/stderr", "--", "sh", "-c", server})...)
	var said bytes.Buffer
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	up := make([]byte, 3)
	if _, err := out.Read(up); string(up) != "up\n" {
		t.Errorf("the server said %q, %v", up, err)
	}
	fmt.Fprintln(stdin, "go") // if it is not there any more, its status says so
	_ = cmd.Wait()            // its status follows
	stdin.Close()
	var told struct {
		Backend string
		Killed  int `json:"killed_total"`
	}
	err = json.Unmarshal(said.Bytes(), &told)
	if code := cmd.ProcessState.ExitCode(); code != 7 || err != nil || told.Backend != c.backend || told.Killed == 0 {
		t.Errorf("as the first process: %v, want status 7; the report (%v), with backend %s and who was killed: %s",
			cmd.ProcessState, err, c.backend, said.String())
	}
}
