// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// A below is a gateway with servers that write to stderr.
type below struct {
	*gateway.Gateway
	backend
	t   *testing.T
	dir string
}

// answering is a server that says on stderr how it began, and what it was asked.
const answering = `echo "began with $1" >&2
while read -r line; do
	case $line in ping) echo "asked" >&2; echo ping ;; *) echo "{}" ;; esac
done
echo "the last" >&2
`

// users are whose gateways are tried, each with the manager that it has.
func users(t *testing.T, test func(t *testing.T, b backend)) {
	for _, b := range []backend{{"systemd-system", host.Root}, {"systemd-user", host.Tester}} {
		t.Run(b.user.Name, func(t *testing.T) { test(t, b) })
	}
}

// gateway starts one; prepare is a shell script that executes what it is given. Servers are scripts in its directory.
func (b backend) gateway(t *testing.T, prepare string, scripts map[string]string, flags ...string) *below {
	t.Helper()
	dir, err := os.MkdirTemp(host.Shared, "stderr.")
	if err = errors.Join(err, os.Chmod(dir, 0o755), os.Mkdir(dir+"/to", 0o755), os.Chown(dir+"/to", b.user.UID, b.user.UID)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // with the host, at the latest
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(script(name, text), "DIR", dir)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	line := []string{"sh", "-c", strings.ReplaceAll(prepare, "DIR", dir) + ` exec "$@"`, "sh", mcpscope, "gateway", "--backend", b.name, "--explain", dir + "/to/explain"}
	for _, f := range flags {
		line = append(line, strings.ReplaceAll(f, "DIR", dir))
	}
	cmd := host.Current(t).Command(b.user, append(line, "--", host.Shared+"/like")...)
	g := &below{backend: b, t: t, dir: dir, Gateway: gateway.Start(t, cmd, cmd.Start)}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(dir + "/to/explain")
			t.Logf("explained:\n%s", text)
		}
	})
	g.Tell("stderr pipe")
	g.Expect("stderr")
	return g
}

// script is what a file has that is no configuration.
func script(name, text string) string {
	if filepath.Ext(name) != "" {
		return text
	}
	return "#!/bin/sh\n" + text
}

// start has it start a script, and speak to it.
func (g *below) start(how, name string, args ...string) {
	g.t.Helper()
	g.Tell("%s %s %s %s", how, name, filepath.Join(g.dir, name), strings.Join(args, " "))
	g.Expect("server " + name)
}

func (g *below) ask(name string) {
	g.t.Helper()
	g.Tell("ask %s", name)
	if got := g.Expect("answer " + name); got != "ping" {
		g.t.Errorf("%s says %q", name, got)
	}
}

// writes waits until the journal has a server's last line of these, and fails the test if it has others.
func (g *below) writes(name string, want ...string) {
	g.t.Helper()
	f := follow(g.t, g.command(g.t, "logs", "--follow", name))
	last := want[len(want)-1]
	f.until(last, func(line string) bool { return line == last })
	f.interrupt()
	if out := g.succeed(g.t, "logs", name); out != strings.Join(want, "\n")+"\n" {
		g.t.Errorf("logs %s: %q, want %q", name, out, want)
	}
}

// said is the next line of a server's stderr that has come to its client: "true LINE", or "false " at the end.
func (g *below) said(name, want string) {
	g.t.Helper()
	g.Tell("said %s", name)
	if got := g.Expect("said " + name); got != want {
		g.t.Errorf("%s: %q has come to its client, want %q", name, got, want)
	}
}

// hello speaks to a server until it is one.
func (g *below) hello(name string) {
	g.t.Helper()
	taken := func(text string) bool { return strings.Contains(text, name+`" taken as `) }
	for deadline := time.Now().Add(patience); ; {
		g.Tell("hello %s", name)
		g.Expect("hello")
		err := escape.AwaitText(g.dir+"/to/explain", time.Second, taken)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("%s was not taken: %v", name, err)
		}
	}
}

// A server of a gateway that is known before it runs writes to the journal from its first line on, and its client
// sees no end of its stderr before it has ended.
func TestGatewayStderrInTheJournal(t *testing.T) {
	users(t, func(t *testing.T, b backend) {
		g := b.gateway(t, "", map[string]string{"known": answering}, "--stderr", "journal", "--match", "DIR/known*")
		g.start("server", "known", "one")
		g.ask("known")
		if e := b.events(t, "known").event("started"); e.Stderr != "journal" {
			t.Errorf("%+v", e)
		}
		g.writes("known", "began with one", "asked")
		g.Tell("heard known")
		if got := g.Expect("heard known"); got != "nothing" {
			t.Errorf("its client has %q", got)
		}
		g.Tell("close known")
		g.said("known", "false ")
		b.events(t, "known").event("ended")
		g.writes("known", "began with one", "asked", "the last")
	})
}

// A server that runs already keeps its stderr, and says so; the next start of the same command is known before it runs.
func TestGatewayStderrOfOneThatRuns(t *testing.T) {
	users(t, func(t *testing.T, b backend) {
		g := b.gateway(t, "", map[string]string{"running": answering}, "--stderr", "journal")
		g.start("quiet", "running", "one")
		g.said("running", "true began with one")
		g.hello("running")
		g.ask("running")
		g.said("running", "true asked")
		f := b.events(t, "running")
		e := f.event("started")
		if e.Stderr != "inherit" {
			t.Errorf("%+v", e)
		}
		const why = "stderr is the client's: the server ran already when it was recognized"
		for f.event("note").Note != why {
		}
		if out := b.succeed(t, "inspect", "running"); !strings.Contains(out, why) {
			t.Errorf("inspect says %s", out)
		}
		r := output(t, b.command(t, "logs", "running"))
		want := fmt.Sprintf("mcpscope: cannot print logs: the stderr of running (%s) is its client's: the server ran already when it was recognized\n"+
			"mcpscope: hint: it is known before it runs at its next start, or by --config or --match of its gateway\n", e.ID)
		if r.status != 1 || r.stderr != want {
			t.Errorf("%+v", r)
		}
		g.Tell("close running")
		f.event("ended")
		g.start("server", "running", "one")
		g.ask("running")
		if e := f.event("started"); e.Stderr != "journal" {
			t.Errorf("%+v", e)
		}
		g.writes("running", "began with one", "asked")
	})
}

// Only descriptor 2 is another one, also where the client has made it the same as descriptor 1: then nothing holds that
// open when the server has ended.
func TestGatewayStderrLikeStdout(t *testing.T) {
	b := backends[1]
	g := b.gateway(t, "", map[string]string{"merged": answering}, "--stderr", "journal", "--match", "DIR/merged*")
	g.Tell("stderr stdout")
	g.Expect("stderr")
	g.start("server", "merged", "one")
	g.ask("merged")
	g.writes("merged", "began with one", "asked")
	supervisor := listed(t, b, "merged").Supervisor
	if err := unix.Kill(supervisor, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(supervisor, unix.SIGCONT)
	g.Tell("close merged")
	g.Tell("rest merged")
	if got := g.Expect("rest merged"); strings.ReplaceAll(got, `{}\n`, "") != `"" <nil>` { // answers to hello
		t.Errorf("on stdout: %s", got)
	}
}

// A program that the server's first one executes keeps what that has given it; and a program that can't be executed
// has changed nothing.
func TestGatewayStderrOfAChain(t *testing.T) {
	b := backends[1]
	scripts := map[string]string{
		"chain": "echo first >&2\nexec env sh -c 'echo second >&2; exec \"$0\" third 2>DIR/to/own' DIR/inner",
		"inner": answering,
		"fails": "cat /dev/null | DIR/not x | cat\n" + answering, // whose stdin is another one, so that it would be a server itself
		"not":   "",
	}
	g := b.gateway(t, "chmod -x DIR/not;", scripts, "--stderr", "journal", "--match", "DIR/chain*", "--match", "DIR/not*")
	g.start("server", "chain", "one")
	g.ask("chain")
	g.writes("chain", "first", "second")
	if own, err := os.ReadFile(g.dir + "/to/own"); err != nil || string(own) != "began with third\nasked\n" {
		t.Errorf("%q (%v)", own, err)
	}
	g.start("quiet", "fails", "two")
	g.Tell("said fails")
	if got := g.Expect("said fails"); !strings.Contains(got, "ermission denied") {
		t.Errorf("%q", got)
	}
}

// In a file it is for some servers; what the gateway's flags say counts more.
func TestGatewayStderrFromAFile(t *testing.T) {
	b := backends[1]
	scripts := map[string]string{
		"fromfile": answering, "another": answering,
		"own.json":      `{"mcpServers": {"my own": {"command": "DIR/fromfile", "args": ["one"]}}}`,
		"mcpscope.toml": "[server.'my*']\nstderr = 'journal'\n",
	}
	g := b.gateway(t, "export MCPSCOPE_CONFIG=DIR/mcpscope.toml;", scripts, "--config", "DIR/own.json", "--match", "DIR/another*")
	g.start("server", "fromfile", "one")
	g.start("server", "another", "two")
	g.ask("fromfile")
	g.ask("another")
	g.writes("my own", "began with one", "asked")
	f := b.events(t, "another")
	if e := f.event("started"); e.Stderr != "inherit" {
		t.Errorf("%+v", e)
	}
	g.Tell("close another")
	f.event("ended")
	for _, line := range f.seen {
		if strings.Contains(line, "stderr is") {
			t.Errorf("nobody has asked for it: %s", line)
		}
	}
	r := output(t, b.command(t, "logs", "another"))
	if !strings.HasSuffix(r.stderr, "is its client's\nmcpscope: hint: start it with --stderr journal, of mcpscope run or of its gateway\n") {
		t.Errorf("%+v", r)
	}
	given := b.gateway(t, "export MCPSCOPE_CONFIG=DIR/mcpscope.toml;", scripts, "--stderr", "inherit", "--config", "DIR/own.json")
	given.start("server", "fromfile", "one")
	given.said("fromfile", "true began with one")
}

// Without a journal a server keeps its stderr.
func TestGatewayWithoutAJournal(t *testing.T) {
	b := backends[0]
	g := b.gateway(t, "[ -n \"$HID\" ] || HID=1 exec unshare --mount \"$0\" -c 'mount -t tmpfs none /run/systemd/journal && exec \"$@\"' sh \"$@\";", map[string]string{"unheard": answering}, "--stderr", "journal", "--match", "DIR/unheard*")
	g.start("server", "unheard", "one")
	g.said("unheard", "true began with one")
	if out := b.succeed(t, "inspect", "unheard"); !strings.Contains(out, "stderr is the client's: there is no systemd journal here") {
		t.Errorf("inspect says %s", out)
	}
}
