// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A Client is a running client/client.c: it starts one server and carries out the test's commands.
type Client struct {
	board
	t      *testing.T
	in     *os.File
	stop   func()   // ends it, whatever it does
	Own    *Process // the client itself
	Server *Process // what it started: the launcher
	Stderr *os.File // of the server
	lines  []string
	ended  bool
}

// StartPiped starts a command by start, and returns the other ends of its stdin and stdout.
func StartPiped(t *testing.T, cmd *exec.Cmd, start func() error) (in, out *os.File) {
	t.Helper()
	theirIn, in := bed.Pipe(t)
	out, theirOut := bed.Pipe(t)
	cmd.Stdin = theirIn
	cmd.Stdout = theirOut
	err := start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

// StartClient starts a client by start, in a session of its own, and returns when it has
// started its server. cmd is a command line of CommandLine, with a place to run at.
func StartClient(t *testing.T, cmd *exec.Cmd, start func() error) *Client {
	t.Helper()
	stderr := MemoryFile(t)
	cmd.Stderr = stderr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	in, out := StartPiped(t, cmd, start)
	return Attach(t, in, out, stderr, func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	})
}

// Attach is StartClient for a client that already runs: in and out are the other ends of its
// stdin and stdout, and stop kills it.
func Attach(t *testing.T, in, out, stderr *os.File, stop func()) *Client {
	t.Helper()
	c := &Client{t: t, in: in, stop: stop, Stderr: stderr}
	t.Cleanup(c.End)
	go c.read(out)
	c.hold()
	return c
}

// MemoryFile is OpenMemory until the end of the test.
func MemoryFile(t *testing.T) *os.File {
	t.Helper()
	file, err := OpenMemory("said")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// OpenMemory is a file for output: a process that is left could hold a pipe open.
func OpenMemory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	return os.NewFile(uintptr(fd), name), os.NewSyscallError("memfd_create", err)
}

// Contents reads a file that others write, without moving their offset.
func Contents(file *os.File) string {
	var text [8192]byte
	n, _ := file.ReadAt(text[:], 0) // a short file returns EOF
	return string(text[:n])
}

func (c *Client) read(out *os.File) {
	defer out.Close()
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		c.update(func() {
			c.lines = append(c.lines, scanner.Text())
		})
	}
	c.update(func() { c.ended = true })
}

// hold opens pidfds of the client and its server before they can be reaped.
func (c *Client) hold() {
	c.t.Helper()
	var own, server int
	line := c.Expect("pids ")
	if n, _ := fmt.Sscanf(line, "%d %d", &own, &server); n != 2 {
		c.t.Fatalf("the client says %q; stderr: %s", c.Lines(), Contents(c.Stderr))
	}
	c.Own = c.open(own)
	c.Server = c.open(server)
	// Only a process that is still there can be its parent.
	if parent, err := ParentOf(server); parent != own || err != nil {
		c.t.Fatalf("the client has ended: %q; stderr: %s", c.Lines(), Contents(c.Stderr))
	}
	c.Tell("held")
}

func (c *Client) open(pid int) *Process {
	c.t.Helper()
	p, err := OpenProcess(pid)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(p.Close)
	return p
}

func (c *Client) Tell(format string, args ...any) {
	_, _ = fmt.Fprintf(c.in, format+"\n", args...) // a dead client shows elsewhere in the test
}

// Find waits for a line with the prefix and returns the text after the prefix.
func (c *Client) Find(prefix string, limit time.Duration) (rest string, found bool) {
	c.wait(limit, func() bool {
		i := slices.IndexFunc(c.lines, func(line string) bool { return strings.HasPrefix(line, prefix) })
		if i >= 0 {
			rest = c.lines[i][len(prefix):]
			found = true
		}
		return found || c.ended
	})
	return rest, found
}

// Expect is Find for a line that must come.
func (c *Client) Expect(prefix string) string {
	c.t.Helper()
	rest, found := c.Find(prefix, Patience)
	if !found {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.t.Errorf("the client did not say %q, but %q; stderr: %s", prefix, c.lines, Contents(c.Stderr))
	}
	return rest
}

// Status waits for the server's exit status: "exit N" or "signal N".
func (c *Client) Status(limit time.Duration) string {
	var text string
	c.wait(limit, func() bool {
		for _, line := range c.lines {
			if strings.HasPrefix(line, "exit ") || strings.HasPrefix(line, "signal ") {
				text = line
			}
		}
		return text != "" || c.ended
	})
	return text
}

// Lives asks the server for an answer, by number so that no old one counts.
func (c *Client) Lives(question string) bool {
	c.Tell("write %s", question)
	_, found := c.Find("out "+question, Patience)
	return found
}

// Lines returns all lines that the client has printed.
func (c *Client) Lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

// End stops the client; its server may run on.
func (c *Client) End() {
	c.in.Close()
	c.stop()
}
