package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A world is a group that is the root of the cgroup2 hierarchy for all that is
// started in it. What a test left in one, no sweep in another removes; so an
// orphan can't pass for a group that was ended as it should be.
type world struct {
	t    *testing.T
	dir  string     // its root group, as we see it
	root *bystander // the process that keeps its namespaces, in its root group
	made int        // groups with a number
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: bed.Group(t, "world")}
	cmd := exec.Command(binaries.world, "--make", bed.Root(t))
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP}
	w.root = w.bystander("in the root group", w.dir, cmd)
	if line := w.root.read(); line != "made\n" {
		t.Fatalf("make a world: %q", line)
	}
	return w
}

// group makes a group in the world.
func (w *world) group(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// unique makes a group with a number in its name.
func (w *world) unique(name string) string {
	w.t.Helper()
	w.made++
	return w.group(fmt.Sprint(name, w.made))
}

// seen is the path by which the world itself knows one of its groups.
func (w *world) seen(dir string) string {
	return filepath.Join(bed.Root(w.t), strings.TrimPrefix(dir, w.dir))
}

// command runs args in the world. None of the test's environment reaches it.
func (w *world) command(args ...string) *exec.Cmd { return w.viewed(nil, args...) }

// viewed is command with options of client/world.c, which change what it sees.
func (w *world) viewed(options []string, args ...string) *exec.Cmd {
	line := append([]string{"--in", fmt.Sprint(w.root.cmd.Process.Pid)}, options...)
	cmd := exec.Command(binaries.world, append(append(line, "--"), args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LANG=C.UTF-8"}
	return cmd
}

// start starts cmd, born in the group.
func (w *world) start(group string, cmd *exec.Cmd) {
	w.t.Helper()
	if err := startIn(group, cmd); err != nil {
		w.t.Fatal(err)
	}
}

// startIn is start for goroutines, which must not end the test.
func startIn(group string, cmd *exec.Cmd) error {
	fd, err := unix.Open(group, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", group, err)
	}
	defer unix.Close(fd)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD = true
	cmd.SysProcAttr.CgroupFD = fd
	return cmd.Start()
}

// groups are the directories that mcpscope has made here for root's servers.
func (w *world) groups() []string {
	found, _ := filepath.Glob(filepath.Join(w.dir, "mcp.slice", "0", "mcp-*", "cgroup.procs")) // the pattern is valid
	for i, file := range found {
		found[i] = filepath.Dir(file)
	}
	return found
}

// clean fails the test for every group that mcpscope has left. A supervisor without a
// launcher leaves the last rmdir to a process in the group "leaving", which outlives
// it by a moment.
func (w *world) clean() {
	w.t.Helper()
	if err := bed.WaitEmpty(filepath.Join(w.dir, "mcp.slice", "0", "leaving"), patience); err != nil {
		w.t.Errorf("someone stays in the group that is there to leave: %v", err)
	}
	for _, dir := range w.groups() {
		w.t.Errorf("the group %s is left: %s", dir, tree(dir))
	}
}

// A bystander echoes lines. It must live, unstopped, until its test ends it.
type bystander struct {
	name string
	cmd  *exec.Cmd
	in   *os.File
	out  *os.File
	rest *bufio.Reader
}

// bystander starts cmd in the group and ends it with the test.
func (w *world) bystander(name, group string, cmd *exec.Cmd) *bystander {
	w.t.Helper()
	b := w.newEcho(group, cmd)
	b.name = name
	w.t.Cleanup(b.end)
	return b
}

// newEcho is a bystander that its test must end.
func (w *world) newEcho(group string, cmd *exec.Cmd) *bystander {
	w.t.Helper()
	b := &bystander{cmd: cmd}
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	b.in, b.out, b.rest = ourIn, ourOut, bufio.NewReader(ourOut)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, os.Stderr
	w.start(group, cmd)
	theirIn.Close()
	theirOut.Close()
	return b
}

func (w *world) plain(name, group string) *bystander {
	w.t.Helper()
	return w.bystander(name, group, w.command(binaries.zoo, "plain"))
}

func (b *bystander) read() string {
	_ = b.out.SetReadDeadline(time.Now().Add(patience)) // a pipe has deadlines
	line, err := b.rest.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return line
}

// lives asks for an answer: a pid alone could be stopped or frozen.
func (b *bystander) lives() bool {
	_, err := b.in.WriteString("ping\n")
	return err == nil && b.read() == "ping\n"
}

func (b *bystander) end() {
	b.in.Close()
	_ = b.cmd.Process.Kill() // it may have ended
	_ = b.cmd.Wait()         // killed
	b.out.Close()
}
