// SPDX-License-Identifier: Apache-2.0

// Package transparent compares what a server is given below mcpscope with what it is given
// bare: bytes, state, signals, a terminal. Where the groups come from is an escape.Backend.
//
// Each test runs the same command twice and looks for differences, of which
// docs/understand/differences.md has to have every one. Like bed and escape, the package knows the
// product by its command line alone, and imports none of it.
package transparent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A Subject is what is compared with the bare command.
type Subject struct {
	escape.Backend
	Program  string // mcpscope
	Programs Programs
	// Page is docs/understand/differences.md, from the test's directory.
	Page string
}

// Programs are what the tests run below it.
type Programs struct{ Wear, Show, Probe string }

// ProgramsIn are those that Commands has made in dir.
func ProgramsIn(dir string) Programs {
	in := func(name string) string { return filepath.Join(dir, name) }
	return Programs{Wear: in("wear"), Show: in("show"), Probe: in("probe")}
}

// Commands adds to those of escape.Build. The caller's directory is a package beside this one.
func Commands(all map[string][]string) map[string][]string {
	all["wear"] = escape.CC("../transparent/state/wear.c")
	all["show"] = escape.CC("../transparent/state/show.c")
	all["probe"] = escape.CC("../e2e/probe/probe.c", "../escape/zoo/register.c", "../escape/zoo/member.c")
	return all
}

// A way is how a command is run: as it is, or below mcpscope.
type way struct {
	name   string
	prefix []string
}

var bare = way{name: "bare"}

// contained is the way that is tested.
func (s Subject) contained(flags ...string) way {
	prefix := append([]string{s.Program, "run", "--backend", s.Name, "--name", "server"}, flags...)
	return way{s.Name, append(prefix, "--")}
}

// line is the command, run in this way.
func (w way) line(command ...string) []string {
	return append(append([]string(nil), w.prefix...), command...)
}

// eachWay runs test bare, and then below mcpscope.
func (s Subject) eachWay(t *testing.T, test func(t *testing.T, w way), flags ...string) {
	t.Helper()
	for _, w := range []way{bare, s.contained(flags...)} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// An end is what the client of a command has seen of it.
type end struct {
	out    []byte
	status syscall.WaitStatus
}

// run runs a command of a client in a group of the site to the end.
func run(site *escape.Site, client string, stdin *os.File, command []string) (end, error) {
	out, err := escape.OpenMemory("stdout")
	if err != nil {
		return end{}, err
	}
	defer out.Close()
	errs, err := escape.OpenMemory("stderr")
	if err != nil {
		return end{}, err
	}
	defer errs.Close()
	cmd := site.Command(command...)
	cmd.Stdout, cmd.Stderr = out, errs
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := escape.StartIn(client, cmd); err != nil {
		return end{}, err
	}
	if err := finish(cmd); err != nil {
		return end{}, fmt.Errorf("%w; stderr: %s", err, escape.Contents(errs))
	}
	if said := escape.Contents(errs); said != "" {
		return end{}, fmt.Errorf("on stderr: %s", said)
	}
	text := new(bytes.Buffer)
	if _, err := out.Seek(0, 0); err != nil {
		return end{}, err
	}
	_, err = text.ReadFrom(out)
	return end{text.Bytes(), cmd.ProcessState.Sys().(syscall.WaitStatus)}, err
}

// finish waits for a command, for a bounded time.
func finish(cmd *exec.Cmd) error {
	p, err := escape.OpenProcess(cmd.Process.Pid)
	if err != nil {
		return err
	}
	defer p.Close()
	ended := p.Ended(escape.Patience)
	if !ended {
		err = errors.New(escape.Describe(p.PID))
		_ = cmd.Process.Kill() // as good as ended
	}
	_ = cmd.Wait() // its status is looked at by the caller
	if !ended {
		return fmt.Errorf("it did not end: %w", err)
	}
	return nil
}
