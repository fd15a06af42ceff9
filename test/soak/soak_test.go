// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

var programs struct {
	escape.Programs
	mcpscope, probe string
}

func TestMain(m *testing.M) {
	bed.Parallel(lanes)
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		programs.Programs = escape.ProgramsIn(dir)
		programs.mcpscope = filepath.Join(dir, "mcpscope")
		programs.probe = transparent.ProgramsIn(dir).Probe
		return transparent.Commands(map[string][]string{})
	}))
}

func newSite(t *testing.T) *escape.Site { return escape.NewWorld(t, programs.Programs).Site }

func plan(backend string, cycles int) *Plan {
	return &Plan{Backend: escape.Backend{Name: backend, Site: newSite}, Program: programs.mcpscope, Probe: programs.probe, Cycles: cycles}
}

// However thousands of servers end, each status is right and nothing adds up.
func TestSoak(t *testing.T) {
	if !escape.Full() {
		t.Skip("too few cycles show nothing: make test-soak")
	}
	p := plan("cgroup", Cycles())
	p.Backend.Groups = func(s *escape.Site, _ string) string { return filepath.Join(s.Dir, "mcp.slice", "0") }
	p.Orphans = true
	p.Run(t)
}

// Without a cgroup no sweep finds the members whose launcher and guard were both killed.
func TestSoakTree(t *testing.T) { plan("tree", max(Cycles()/10, 3*lanes)).Run(t) }

// contained is the command line of a server of the backend cgroup, with short graces.
func contained(command ...string) []string {
	return append([]string{programs.mcpscope, "run", "--backend", "cgroup", "--eof-grace", "100ms",
		"--term-grace", "100ms", "--"}, command...)
}

// Many servers at once end when their clients close stdin, and when their launchers are killed.
func TestManyServersAtOnce(t *testing.T) {
	waves := 2 // of 50
	if escape.Full() {
		waves = 20
	}
	for name, end := range map[string]func(*escape.Bystander){
		"stdin": func(b *escape.Bystander) { _ = b.In.Close() },
		"kill":  func(b *escape.Bystander) { _ = b.Cmd.Process.Signal(unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			p := plan("cgroup", 0)
			p.site = newSite(t)
			p.mcpscope(t, p.site.Dir, "run", "--backend", "cgroup", "--", "true") // makes the slice
			p.flat(t, func() {
				var all []*escape.Bystander
				for wave := range waves { // the next begins when all of one have answered
					for range 50 {
						all = append(all, p.site.NewEcho(p.site.Dir,
							p.site.Command(contained(programs.Zoo, "plain")...)))
					}
					for _, b := range all[wave*50:] {
						if !b.Lives() {
							t.Fatalf("a server does not answer: %s", escape.Describe(b.Cmd.Process.Pid))
						}
					}
				}
				for _, b := range all {
					end(b)
				}
				for _, b := range all {
					if err := b.Cmd.Wait(); name == "stdin" && err != nil {
						t.Errorf("a server ended with %v", err)
					}
					b.End()
				}
			})
		})
	}
}
