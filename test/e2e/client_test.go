package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A client is client/client.c at work: it starts one server and does as told.
type client struct {
	board
	t      *testing.T
	cmd    *exec.Cmd
	in     *os.File
	own    *process // the client itself
	server *process // what it started: the launcher
	stderr *os.File // of the server
	lines  []string
	times  []time.Time // when each line came
	ended  bool
}

// newClient starts a client in the group, in a session of its own, and returns
// when it has started its server. Options are client/client.c's.
func (w *world) newClient(group string, options []string, command []string, extra ...*os.File) *client {
	w.t.Helper()
	c := &client{t: w.t, stderr: memoryFile(w.t)}
	args := append(append([]string{binaries.client}, options...), "--")
	c.cmd = w.command(append(args, command...)...)
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	c.in = ourIn
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr, c.cmd.ExtraFiles = theirIn, theirOut, c.stderr, extra
	c.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	w.start(group, c.cmd)
	theirIn.Close()
	theirOut.Close()
	w.t.Cleanup(c.end)
	go c.read(ourOut)
	c.hold()
	return c
}

func memoryFile(t *testing.T) *os.File {
	t.Helper()
	file, err := openMemory("stderr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func openMemory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	return os.NewFile(uintptr(fd), name), os.NewSyscallError("memfd_create", err)
}

// contents reads a file that others write, without moving their offset.
func contents(file *os.File) string {
	var text [8192]byte
	n, _ := file.ReadAt(text[:], 0) // EOF is what ends it
	return string(text[:n])
}

func (c *client) read(out *os.File) {
	defer out.Close()
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		c.update(func() {
			c.lines = append(c.lines, scanner.Text())
			c.times = append(c.times, time.Now())
		})
	}
	c.update(func() { c.ended = true })
}

// hold opens the client and its server while nobody reaps them.
func (c *client) hold() {
	c.t.Helper()
	line := c.expect("pid ")
	pid, err := strconv.Atoi(line)
	if err != nil {
		c.t.Fatalf("the client says %q; stderr: %s", line, contents(c.stderr))
	}
	if c.own, err = openProcess(c.cmd.Process.Pid); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.own.close)
	if c.server, err = openProcess(pid); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.server.close)
	c.tell("held")
}

// tell gives the client a command. It may be dead: the test finds out.
func (c *client) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(c.in, format+"\n", args...)
}

// find waits for a line with the prefix and returns the rest of it.
func (c *client) find(prefix string, limit time.Duration) (rest string, found bool) {
	c.wait(limit, func() bool {
		i := slices.IndexFunc(c.lines, func(line string) bool { return strings.HasPrefix(line, prefix) })
		if i >= 0 {
			rest, found = c.lines[i][len(prefix):], true
		}
		return found || c.ended
	})
	return rest, found
}

// expect is find for a line that must come.
func (c *client) expect(prefix string) string {
	c.t.Helper()
	rest, found := c.find(prefix, patience)
	if !found {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.t.Errorf("the client did not say %q, but %q; stderr: %s", prefix, c.lines, contents(c.stderr))
	}
	return rest
}

// status is how the server ended: "exit N" or "signal N".
func (c *client) status(limit time.Duration) string {
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

// lives asks the server for an answer, by number so that no old one counts.
func (c *client) lives(question string) bool {
	c.tell("write %s", question)
	_, found := c.find("out "+question, patience)
	return found
}

func (c *client) end() {
	c.in.Close()
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()         // killed
}
