// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpscope/mcpscope/demo/session"
)

// A scenario is one way in which a server is started and its client ends.
type scenario struct {
	client string // the SDK
	server string
	runner string // what runs the server's package
	end    string

	// leaks says that processes are known to be left without mcpscope.
	leaks bool
}

const (
	typeScriptSDK = "TypeScript SDK"
	goSDK         = "Go SDK"

	npx           = "npx"
	packageRunner = "package runner"

	closed = "closes"
	killed = "is killed"
)

// The first row leaks with no fault of anybody's: the Go SDK announces roots, the
// server asks for them 350 ms after the start, and when the client has closed by
// then the unanswered request keeps node alive for 60 s. The SDK's SIGTERM goes to
// npx alone. A package runner that holds its child's stdin open, as uvx does, hides
// the client's death from the server.
var scenarios = []scenario{
	{goSDK, "everything", npx, closed, true},
	{goSDK, "everything", npx, killed, false},
	{goSDK, "filesystem", packageRunner, closed, false},
	{goSDK, "filesystem", packageRunner, killed, true},
	{typeScriptSDK, "filesystem", npx, closed, false},
	{typeScriptSDK, "memory", npx, killed, false},
	{typeScriptSDK, "memory", packageRunner, closed, false},
	{typeScriptSDK, "memory", packageRunner, killed, true},
}

func (s scenario) String() string {
	return fmt.Sprintf("%s, server-%s by %s, client %s", s.client, s.server, s.runner, s.end)
}

// A bench is where the programs are.
type bench struct {
	mcpscope, bin, node string

	marks atomic.Int32 // how many runs have been marked
}

func (b *bench) client(s scenario) string {
	return filepath.Join(b.bin, map[string]string{typeScriptSDK: "tssdk", goSDK: "gosdk"}[s.client])
}

// command is what the client's configuration would name.
func (b *bench) command(s scenario) []string {
	command := []string{"npx", "-y", "@modelcontextprotocol/server-" + s.server}
	if s.runner == packageRunner {
		command = []string{filepath.Join(b.bin, "uvxlike"), "node_modules/.bin/mcp-server-" + s.server}
	}
	if s.server == "filesystem" {
		command = append(command, ".") // the directory that it may show
	}
	return command
}

// An outcome is what became of a server's processes.
type outcome struct {
	left  []string // the names of the processes
	bytes int      // their resident memory
	took  time.Duration
}

// leftAfter is when a process counts as left: an official SDK gives a server 2 s
// to 5 s, but before its close returns; and no client waits after that.
const leftAfter = 3 * time.Second

// compare runs the scenario in both ways at once: most of it is waiting.
func (b *bench) compare(s scenario) (bare, contained outcome, err error) {
	var bareErr, containedErr error
	var both sync.WaitGroup
	both.Go(func() { bare, bareErr = b.bare(s) })
	both.Go(func() { contained, containedErr = b.contained(s) })
	both.Wait()
	if bareErr != nil {
		return bare, contained, fmt.Errorf("bare: %w", bareErr)
	}
	if containedErr != nil {
		return bare, contained, fmt.Errorf("with mcpscope: %w", containedErr)
	}
	return bare, contained, nil
}

// bare repeats a run in which a known leak doesn't show: on a busy machine the
// client may be too late to leave a request unanswered.
func (b *bench) bare(s scenario) (o outcome, err error) {
	for range 3 {
		o, err = b.run(s, session.Config{Server: b.command(s)})
		if err != nil || !s.leaks || len(o.left) > 0 {
			break
		}
	}
	return o, err
}

func (b *bench) contained(s scenario) (outcome, error) {
	// The z keeps run 1 from being found in run 10.
	mark := fmt.Sprintf("demo%dx%dz", os.Getpid(), b.marks.Add(1))
	command := append([]string{b.mcpscope, "run", "--name", mark, "--"}, b.command(s)...)
	return b.run(s, session.Config{Server: command, Mark: mark})
}

func (b *bench) run(s scenario, c session.Config) (o outcome, err error) {
	stderr, err := os.CreateTemp("", "mcpscope-demo-*")
	if err != nil {
		return o, err
	}
	defer stderr.Close()
	defer os.Remove(stderr.Name())
	c.Client, c.Dir, c.Stderr = []string{b.client(s)}, b.node, stderr

	if o, err = observe(s, c); err != nil {
		text, _ := os.ReadFile(stderr.Name()) // without it the error stands alone
		err = fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(text)))
	}
	return o, err
}

// observe ends the session and tells what is left of it, then ends that too.
func observe(s scenario, c session.Config) (o outcome, err error) {
	run, err := session.Start(c)
	if err != nil {
		return o, err
	}
	defer func() {
		if endErr := run.End(); err == nil {
			err = endErr
		}
	}()
	hello, err := run.Hello()
	if err != nil {
		return o, err
	}
	if hello.Call != "ok" {
		return o, fmt.Errorf("the server answered %+v", hello)
	}
	if err := run.Observe(); err != nil {
		return o, err
	}
	began := time.Now()
	if err := end(run, s.end); err != nil {
		return o, err
	}
	left, err := run.Left(time.Now().Add(leftAfter))
	o.took = time.Since(began)
	for _, p := range left {
		o.left = append(o.left, p.String())
		o.bytes += p.RSS()
	}
	return o, err
}

func end(run *session.Session, how string) error {
	if how == closed {
		return run.Close()
	}
	return run.Kill()
}
