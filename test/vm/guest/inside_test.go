// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	{"timeout", strings.Fields("timeout 1000 ENGINE run -i --rm " + ofAll)},
}

// ofAll are the tests that each runs.
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

// contained is a server in a container.
type contained struct {
	*escape.Client
	t *testing.T
	e engine
}

// containerEnds are the ways in which such a server's life is over, one of each class.
var containerEnds = map[string]func(*contained){
	"stdin":  func(s *contained) { s.Tell("close") },
	"kill":   func(s *contained) { s.Server.Signal(unix.SIGKILL) },
	"client": func(s *contained) { s.Own.Signal(unix.SIGKILL) },
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
	s.wantLimits(name)
	return s
}

// wantLimits: the container has the limits of the server, whichever of its groups the engine has limited.
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

// Nothing is left of a server that an engine runs for it, however it was started and however it ends, and no
// other container is touched.
func TestServersInContainers(t *testing.T) {
	if !strings.HasSuffix(suite, "+containers") {
		return // there is no engine
	}
	startDocker(t)
	root := rootFS(t)
	for i, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			e := e.engine
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
			cells := 0
			left := 0
			for j, w := range ways {
				for k, end := range []string{"stdin", "kill", "client"} {
					// without being asked for all, each way once on one engine, with the ends in turn: a
					// container takes a quarter of a minute on an emulated processor
					if !wholeContainers() && (j%len(engines) != i || j/len(engines)%len(containerEnds) != k) {
						continue
					}
					if w.name == "detached" { // its main process is done at once, and so is the server
						if end = "exit"; k > 0 && wholeContainers() {
							continue
						}
					}
					t.Run(w.name+", "+end, func(t *testing.T) {
						e.t = t
						cells++
						name := fmt.Sprintf("server-%d", cells)
						s := e.startIn(e.line(w, name), name, end != "exit")
						if end == "exit" {
							s.Status(escape.Patience)
						} else {
							containerEnds[end](s)
						}
						left += len(e.awaitGone(name, beside))
						if t.Failed() {
							t.Logf("mcpscope says: %s", escape.Contents(s.Stderr))
						}
					})
				}
			}
			if err := escape.AppendTable(fmt.Sprintf("\nservers in containers, %s\n%d cells, %d with nothing left, 0 exempt; %d members registered, %d left\n", t.Name(), cells, cells-left, cells, left)); err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitGone waits until no container is there but those beside, which have to be.
func (e engine) awaitGone(name string, beside []string) (left []string) {
	t := e.t
	t.Helper()
	var up []string
	pace.Eventually(escape.Patience, func() bool { // if not, the rest says what is wrong
		left = slices.DeleteFunc(strings.Fields(e.well("ps", "-a", "--format", "{{.Names}}")), func(name string) bool { return slices.Contains(beside, name) })
		up = strings.Fields(e.well("ps", "--format", "{{.Names}}"))
		return len(left) == 0 && len(up) == len(beside)
	})
	for _, other := range left {
		t.Errorf("%s: the container %s is left", name, other)
		e.well("rm", "--force", other)
	}
	if len(up) != len(beside) {
		t.Errorf("%s: running are %q, want %q", name, up, beside)
	}
	return left
}
