// SPDX-License-Identifier: Apache-2.0

// Package transparent compares the environment of a server below mcpscope with that of a bare server: bytes,
// state, signals, a terminal. An escape.Backend selects the backend.
//
// docs/reference/differences.md has to have every difference that State finds. Like bed and escape, the
// package knows the product by its command line alone, and imports none of it.
package transparent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A Subject is compared with the bare command.
type Subject struct {
	escape.Backend
	Program  string // mcpscope
	Programs Programs
}

// Programs are those that the tests run below it.
type Programs struct{ Wear, Show, Probe, Shell, Claim string }

// ProgramsIn are those that Commands has made in dir.
func ProgramsIn(dir string) Programs {
	in := func(name string) string { return filepath.Join(dir, name) }
	return Programs{Wear: in("wear"), Show: in("show"), Probe: in("probe"), Shell: in("shell"), Claim: in("claim")}
}

// Commands adds to those of escape.Build. The caller's directory is a package beside transparent.
func Commands(all map[string][]string) map[string][]string {
	for _, name := range []string{"wear", "show", "shell", "claim"} {
		all[name] = escape.CC("../transparent/state/" + name + ".c")
	}
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
	prefix := slices.Concat([]string{s.Program, "run", "--backend", s.Name, "--name", "server"}, escape.IdleFlags(), flags)
	return way{s.Name, append(prefix, "--")}
}

// line is the command, run in this way.
func (w way) line(command ...string) []string { return append(slices.Clone(w.prefix), command...) }

// eachWay runs test bare, and then below mcpscope.
func (s Subject) eachWay(t *testing.T, test func(t *testing.T, w way)) {
	for _, w := range []way{bare, s.contained()} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// run runs a command of a client in a group of the site to the end, and fails the test if anything is on
// stderr.
func run(site *escape.Site, client string, command []string) escape.Outcome {
	site.T.Helper()
	o, err := escape.Finish(client, site.Command(command...))
	if err != nil || o.Stderr != "" {
		site.T.Fatalf("%.200q: %v; stderr: %s", command, err, o.Stderr)
	}
	return o
}

// channels are the kinds of stdin and stdout that clients give their servers.
var channels = map[string]func() (theirs, ours *os.File, err error){
	"pipe": os.Pipe,
	"socketpair": func() (theirs, ours *os.File, err error) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return os.NewFile(uintptr(fds[0]), "theirs"), os.NewFile(uintptr(fds[1]), "ours"), os.NewSyscallError("socketpair", err)
	},
}

// A talk is a server with its client's ends of stdin and stdout.
type talk struct {
	cmd             *exec.Cmd
	in, out, stderr *os.File
	inLink, outLink string // what /proc calls the server's ends
}

// startTalk starts a command with a channel of that kind at either end.
func startTalk(t *testing.T, site *escape.Site, kind string, command []string) *talk {
	t.Helper()
	theirIn, in, err := channels[kind]()
	if err != nil {
		t.Fatal(err)
	}
	defer theirIn.Close()
	theirOut, out, err := channels[kind]()
	if err != nil {
		t.Fatal(err)
	}
	if kind == "pipe" {
		theirOut, out = out, theirOut // the other way round
	}
	defer theirOut.Close()
	k := &talk{cmd: site.Command(command...), in: in, out: out, stderr: escape.MemoryFile(t)}
	k.cmd.Stdin = theirIn
	k.cmd.Stdout = theirOut
	k.cmd.Stderr = k.stderr
	t.Cleanup(func() {
		in.Close()
		out.Close()
		_ = k.cmd.Process.Kill() // it may have ended
		_ = k.cmd.Wait()         // killed
	})
	link := func(f *os.File) string {
		to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	k.inLink = link(theirIn)
	k.outLink = link(theirOut)
	site.Start(site.Unique("client"), k.cmd)
	return k
}

// ended waits for the command and returns its status.
func (k *talk) ended(t *testing.T) syscall.WaitStatus {
	t.Helper()
	_ = k.cmd.Wait() // its status says it
	if said := escape.Contents(k.stderr); said != "" {
		t.Errorf("on stderr: %s", said)
	}
	return k.cmd.ProcessState.Sys().(syscall.WaitStatus)
}
