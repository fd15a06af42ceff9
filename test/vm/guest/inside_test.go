// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// deafServer says that it is up, answers, and ends neither with its stdin nor at SIGTERM.
const deafServer = `trap "" TERM; echo up; while read line; do echo "$line"; done; while :; do sleep 1000; done`

type way struct {
	name string
	argv []string
}

// ways are those to start a container: ENGINE is the engine's program with its flags, NAME what the container
// is called.
var ways = []way{
	{"run", strings.Fields("ENGINE run -i --rm " + ofAll)},
	{"absolute path", strings.Fields("/usr/bin/ENGINE run -i --rm " + ofAll)},
	{"container run", strings.Fields("ENGINE container run --interactive --rm " + ofAll)},
	{"flags before", strings.Fields("ENGINE --log-level error run -i --rm " + ofAll)},
	{"kept", strings.Fields("ENGINE run -i " + ofAll)},
	{"init", strings.Fields("ENGINE run --init -i --rm " + ofAll)},
	{"detached", strings.Fields("ENGINE run -d --rm " + ofAll)},
	{"env", strings.Fields("env -u NOTHING A=1 ENGINE run -i --rm " + ofAll)},
	{"timeout", strings.Fields("nice -n 1 timeout 1000 ENGINE run -i --rm " + ofAll)},
	{"sh -c", []string{"sh", "-c", `ENGINE run -i --rm ` + strings.ReplaceAll(ofAll, "SERVER", `"$0"`), "SERVER"}},
	{"sh -c, cd", []string{"sh", "-c", `cd / && A=1 exec ENGINE run -i --rm ` + strings.ReplaceAll(ofAll, "SERVER", `"$0"`), "SERVER"}},
	{"sh -c, arguments", append([]string{"sh", "-c", `ENGINE run -i --rm "$@"`, "sh"}, strings.Fields(ofAll)...)},
}

// ofAll is what each runs.
const ofAll = "--stop-timeout=1 --network=none --name=NAME " + image + " sh -c SERVER"

// line makes a command line of a way.
func (e engine) line(w way, name string) (all []string) {
	for _, word := range w.argv {
		program, alone := strings.CutSuffix(word, "ENGINE")
		switch {
		case word == "SERVER":
			all = append(all, deafServer)
		case alone:
			all = append(all, program+e.argv[0])
			all = append(all, e.argv[1:]...)
		default:
			all = append(all, strings.NewReplacer("ENGINE", strings.Join(e.argv, " "), "NAME", name).Replace(word))
		}
	}
	return all
}

// contained is a server in a container, and who is around it.
type contained struct {
	*escape.Client
	t          *testing.T
	e          engine
	id         string
	supervisor *escape.Process
	main       *escape.Process
}

type containerEnd struct {
	name string
	do   func(s *contained)
}

// containerEnds are the ways in which such a server's life is over.
var containerEnds = []containerEnd{
	{"stdin", func(s *contained) { s.Tell("close") }},
	{"TERM", func(s *contained) { s.Server.Signal(unix.SIGTERM) }},
	{"kill", func(s *contained) { s.Server.Signal(unix.SIGKILL) }},
	{"main", func(s *contained) { s.main.Signal(unix.SIGKILL) }},
	{"superv", func(s *contained) { s.supervisor.Signal(unix.SIGKILL) }},
	{"client", func(s *contained) { s.Own.Signal(unix.SIGKILL) }},
	{"stop", func(s *contained) { s.e.tool("stop", s.id) }},
	{"swept", func(s *contained) { // nobody is left to act
		s.supervisor.Signal(unix.SIGSTOP)
		s.Server.Signal(unix.SIGKILL)
		s.supervisor.Signal(unix.SIGKILL)
		if !s.supervisor.Ended(escape.Patience) || !s.Server.Ended(escape.Patience) {
			s.t.Error("launcher or supervisor outlived SIGKILL")
		}
		s.e.tool("sweep")
	}},
	{"daemon-restarted", func(s *contained) {
		s.e.daemon("restart")
		s.Tell("close")
	}},
	{"daemon-stopped", func(s *contained) {
		s.e.daemon("stop")
		s.Tell("close")
		if status := s.Status(escape.Patience); status != "exit 125" || !strings.Contains(escape.Contents(s.Stderr), "could not be asked") {
			s.t.Errorf("without a daemon it ended with %q; stderr: %s", status, escape.Contents(s.Stderr))
		}
		s.e.daemon("start")
		s.removeLabelled() // without --rm it is there, but does not run
	}},
	{"daemon-hangs", func(s *contained) {
		kill := func(signal string) {
			engine{t: s.t, argv: []string{"systemctl", "kill", "--kill-whom=main"}}.well("--signal="+signal, "docker.service")
		}
		kill("STOP")
		s.Server.Signal(unix.SIGTERM)
		if status := s.Status(escape.Patience); status != "exit 125" || !strings.Contains(escape.Contents(s.Stderr), "did not answer") {
			s.t.Errorf("with a daemon that hangs it ended with %q; stderr: %s", status, escape.Contents(s.Stderr))
		}
		kill("CONT")
		s.removeLabelled()
	}},
}

// removeLabelled does what the message says that somebody has to do.
func (s *contained) removeLabelled() {
	for id := range strings.FieldsSeq(s.e.well("ps", "-aq", "--filter", "label=mcpscope.id="+s.id)) {
		_ = s.e.command("rm", "--force", id).Run() // the daemon may be doing it
	}
}

// tool runs mcpscope as the engine's user.
func (e engine) tool(args ...string) string {
	e.t.Helper()
	e.argv = []string{mcpscope}
	return e.well(args...)
}

// daemon is for docker, which has one.
func (e engine) daemon(verb string) {
	engine{t: e.t, argv: []string{"systemctl", verb}}.well("docker.service", "docker.socket")
}

// startIn starts a server by a command line, and returns when it runs in its container.
func (e engine) startIn(command []string, name string, up bool) *contained {
	t := e.t
	t.Helper()
	line := append([]string{filepath.Join(host.Shared, "client"), "--", mcpscope, "run", "--name", name, "--eof-grace", "200ms", "--term-grace", "300ms", "--memory-max", "512M", "--pids-max", "300", "--"}, command...)
	cmd := engine{t: t, user: e.user}.command(line...)
	s := &contained{Client: escape.StartClient(t, cmd, cmd.Start), t: t, e: e}
	if !up {
		return s
	}
	s.Expect("out up")
	l := e.inspected(name)
	s.id, s.supervisor, s.main = l.ID, s.hold(l.Supervisor), s.hold(l.Tree[0].PID)
	s.wantFigures(name)
	s.wantLimits(name)
	return s
}

// wantLimits: what the server may use the container may, whichever of its groups the engine has limited.
func (s *contained) wantLimits(name string) {
	path, err := bed.ProcessPath(s.e.first(name))
	if err != nil {
		s.t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "536870912", "pids.max": "300"} {
		said := "max"
		for dir := path; dir != "/" && said == "max"; dir = filepath.Dir(dir) {
			text, _ := os.ReadFile(filepath.Join(bed.Root(s.t), dir, file)) // the controller may end above
			said = cmp.Or(strings.TrimSpace(string(text)), "max")
		}
		if said != want {
			s.t.Errorf("%s of the container is %s, want %s", file, said, want)
		}
	}
}

// inspected is what the tests read of `inspect --json`.
type inspected struct {
	ID         string
	Supervisor int `json:"supervisor_pid"`
	Processes  int
	Memory     uint64 `json:"memory_bytes"`
	Tree       []struct{ PID int }
}

func (e engine) inspected(name string) inspected {
	e.t.Helper()
	var found struct{ Servers []inspected }
	if err := json.Unmarshal([]byte(e.tool("inspect", "--json", name)), &found); err != nil || len(found.Servers) != 1 || len(found.Servers[0].Tree) == 0 {
		e.t.Fatalf("%s is not listed: %+v, %v", name, found.Servers, err)
	}
	return found.Servers[0]
}

// wantFigures compares what is listed with the container's own group. That has half of its memory at least: the rest
// is read at another time, and of the engine's program. An engine that takes too long to answer is left out, and asked again.
func (s *contained) wantFigures(name string) {
	t := s.t
	t.Helper()
	path, err := bed.ProcessPath(s.e.first(name))
	if err != nil {
		t.Fatal(err)
	}
	group := filepath.Join(bed.Root(t), path)
	text, err := os.ReadFile(filepath.Join(group, "memory.current"))
	if err != nil {
		t.Fatal(err)
	}
	own, bytes := len(inside(t, group)), uint64(0)
	if _, err := fmt.Sscan(string(text), &bytes); err != nil || own == 0 || bytes == 0 {
		t.Fatalf("the container's group has %d processes and %d bytes: %v", own, bytes, err)
	}
	var l inspected
	for deadline := pace.Now().Add(escape.Patience); pace.Until(deadline) > 0; { // each asks the engine again, for 5 s at most
		if l = s.e.inspected(name); l.Processes >= own+1 && l.Memory >= bytes/2 {
			return
		}
	}
	t.Errorf("%d processes and %d bytes are listed; the container alone has %d and %d", l.Processes, l.Memory, own, bytes)
}

func (s *contained) hold(pid int) *escape.Process {
	s.t.Helper()
	p, err := escape.OpenProcess(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Close)
	return p
}

// Nothing is left of a server that an engine runs for it, however it was started and however it ends, and no other
// container is touched.
func TestServersInContainers(t *testing.T) {
	if !strings.HasSuffix(suite, "+containers") {
		return // there is no engine
	}
	startDocker(t)
	root := rootFS(t)
	next := 0
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			name, e := e.name, e.engine
			e.t = t
			e.load(root)
			beside := []string{"beside", "labelled"}
			for i, label := range []string{"of=nobody", "mcpscope.id=abcdefgh"} {
				e.well("run", "--detach", "--init", "--stop-timeout=1", "--network=none", "--restart=always", "--label", label, "--name", beside[i], image, "sleep", "100000")
			}
			t.Cleanup(func() {
				e.t = t
				for _, name := range beside {
					e.well("kill", name)
					e.well("rm", "--force", name)
				}
			})
			cells, left := 0, 0
			for _, c := range cellsOf(name, e.argv[0], &next) {
				t.Run(c.way.name+", "+c.end.name, func(t *testing.T) {
					e.t = t
					cells++
					name := fmt.Sprintf("server-%d", cells)
					detached := c.way.name == "detached" // its main process is done at once, and so is the server
					s := e.startIn(e.line(c.way, name), name, !detached)
					if detached {
						s.Status(escape.Patience)
					} else {
						c.end.do(s)
					}
					left += len(e.awaitGone(name, beside))
					if t.Failed() {
						t.Logf("mcpscope says: %s", escape.Contents(s.Stderr))
					}
				})
			}
			if err := escape.AppendTable(fmt.Sprintf("\nservers in containers, %s\n%d cells, %d with nothing left, 0 exempt; %d members registered, %d left\n", t.Name(), cells, cells-left, cells, left)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A cell is a way to start a container, and one for it to end.
type insideCell struct {
	way way
	end containerEnd
}

// fewEnds are those that each engine is tried with, each of another way to start a container, unless all of all are asked
// for: a container takes a quarter of a minute on an emulated processor.
var fewEnds = map[string]string{
	"docker": "kill superv swept daemon-stopped", "podman": "superv", "rootless podman": "TERM",
}

// cellsOf are the cells of an engine; next is how many ways were tried with others.
func cellsOf(engine, program string, next *int) (cells []insideCell) {
	whole := wholeContainers()
	var attached []way
	for _, w := range ways {
		if w.name != "detached" {
			attached = append(attached, w)
		} else if whole || engine == "docker" {
			cells = append(cells, insideCell{w, containerEnd{name: "exit"}})
		}
	}
	for _, end := range containerEnds {
		switch {
		case whole && (program == "docker" || !strings.HasPrefix(end.name, "daemon")):
			for _, w := range attached {
				cells = append(cells, insideCell{w, end})
			}
		case !whole && slices.Contains(strings.Fields(fewEnds[engine]), end.name):
			cells = append(cells, insideCell{attached[*next%len(attached)], end})
			*next++
		}
	}
	return cells
}

// awaitGone waits until no container is there but those beside, which have to be.
func (e engine) awaitGone(name string, beside []string) (left []string) {
	t := e.t
	t.Helper()
	var up []string
	for pause := 10 * time.Millisecond; ; pause *= 2 { // an engine tells of no removal, nor a daemon when it has started all
		left = slices.DeleteFunc(strings.Fields(e.well("ps", "-a", "--format", "{{.Names}}")), func(name string) bool { return slices.Contains(beside, name) })
		up = strings.Fields(e.well("ps", "--format", "{{.Names}}"))
		if len(left) == 0 && len(up) == len(beside) || pause > escape.Patience {
			break
		}
		escape.PollFor(pause)
	}
	for _, other := range left {
		t.Errorf("%s: the container %s is left", name, other)
		e.well("rm", "--force", other)
	}
	if len(up) != len(beside) {
		t.Errorf("%s: running are %q, want %q", name, up, beside)
	}
	return left
}
