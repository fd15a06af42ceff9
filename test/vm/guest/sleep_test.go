// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A writer to a frozen file system sleeps uninterruptibly, and cannot be killed. The launcher still returns,
// and reports it; the group is removed when the sleep ends.
func TestUninterruptibleSleep(t *testing.T) {
	h := host.Current(t)
	d := mountDisk(t)
	d.freeze()
	var asleep []*sleeper
	var tried []string
	for _, c := range clients() {
		for _, b := range c.backends {
			if !slices.Contains(tried, b) {
				tried = append(tried, b)
				asleep = append(asleep, startSleeper(t, h, c, b, filepath.Join(d.dir, b)))
			}
		}
	}
	for _, s := range asleep {
		s.end()
	}
	for _, s := range asleep {
		s.returned()
	}
	d.thaw()
	for _, s := range asleep {
		s.gone()
	}
}

// A sleeper is a server that sleeps until the file system is thawed.
type sleeper struct {
	t              *testing.T
	backend        string
	cmd            *exec.Cmd
	stdin          io.Closer
	stderr, report *os.File
	main, guard    *escape.Process
	group          string // of both; "" for tree
}

func startSleeper(t *testing.T, h *host.Host, c client, backend, file string) *sleeper {
	t.Helper()
	s := &sleeper{t: t, backend: backend, stderr: escape.MemoryFile(t), report: escape.MemoryFile(t)}
	// its pid without a "$", which systemd-run takes for its own from 262 on
	s.cmd = c.command(h, mcpscope, "run", "--backend", backend, "--report", "fd:3", "--", "sh", "-c", "cut -d' ' -f4 /proc/self/stat; printenv MCPSCOPE_ID; : >"+file)
	s.cmd.Stderr = s.stderr
	s.cmd.ExtraFiles = []*os.File{s.report}
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	lines := bufio.NewReader(out)
	line, _ := lines.ReadString('\n')
	id, _ := lines.ReadString('\n')                 // without one no guard has it
	pid, _ := strconv.Atoi(strings.TrimSpace(line)) // 0 is no process
	if s.main, err = escape.OpenProcess(pid); err != nil {
		t.Fatalf("%s: the server said %q; %v; stderr: %s", backend, line, err, escape.Contents(s.stderr))
	}
	t.Cleanup(s.main.Close)
	if s.guard, err = escape.GuardOfTree(strings.TrimSpace(id)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.guard.Close)
	path, err := bed.ProcessPath(pid)
	if err != nil {
		t.Fatal(err)
	}
	if group := strings.TrimSuffix(path, "/payload"); strings.Contains(group, "/mcp-") {
		s.group = filepath.Join(bed.Root(t), group)
	}
	return s
}

// end ends the server as clients do, when it sleeps.
func (s *sleeper) end() {
	s.t.Helper()
	asleep := pace.Eventually(escape.Patience, func() bool {
		state, err := escape.StatField(s.main.PID, 3)
		return err == nil && state == "D"
	})
	if !asleep {
		s.t.Fatalf("%s does not sleep: %s", s.backend, escape.Describe(s.main.PID))
	}
	s.stdin.Close()
}

// returned waits for the launcher, which has reported the process.
func (s *sleeper) returned() {
	s.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	select {
	case <-ended:
	case <-pace.After(escape.Patience):
		s.t.Fatalf("%s: the launcher does not return; stderr: %s", s.backend, escape.Contents(s.stderr))
	}
	who := fmt.Sprintf("process %d (sh), sleeping uninterruptibly", s.main.PID)
	if where, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", s.main.PID)); len(where) > 1 { // "0" says nothing
		who += " in " + string(where)
	}
	said := escape.Contents(s.stderr)
	if code := s.cmd.ProcessState.ExitCode(); code != 125 || strings.Count(said, who) != 1 {
		s.t.Errorf("%s: %v, want status 125 and once %q; stderr: %s", s.backend, s.cmd.ProcessState, who, said)
	}
	var told struct {
		Stuck  []string
		Killed int `json:"killed_total"`
	}
	text := escape.Contents(s.report)
	if err := json.Unmarshal([]byte(text), &told); err != nil || told.Killed != 1 || len(told.Stuck) != 1 || !strings.HasPrefix(told.Stuck[0], who) {
		s.t.Errorf("%s: the report says %s (%v), want %q", s.backend, text, err, who)
	}
	if s.main.Ended(0) || s.guard.Ended(0) {
		s.t.Errorf("%s: it ended, so it did not sleep, or its guard did not wait", s.backend)
	}
}

// gone waits for the end of all that there was.
func (s *sleeper) gone() {
	s.t.Helper()
	escape.WantEnded(s.t, s.main, s.guard)
	if s.group == "" {
		return
	}
	if err := escape.AwaitRemoval(s.group, escape.Patience); err != nil {
		s.t.Errorf("%s: %v", s.backend, err)
	}
}

// device is blank, and as large as a file system has to be.
const device = "/dev/nvme0n1"

// FIFREEZE and FITHAW of linux/fs.h.
const fiFreeze, fiThaw = 0xc0045877, 0xc0045878

// A disk is a file system that can be frozen: a writer to it then sleeps.
type disk struct {
	t   *testing.T
	dir string
	fd  int
}

// mountDisk gives every user a place to write to. When the test is over it is thawed and
// unmounted.
func mountDisk(t *testing.T) *disk {
	t.Helper()
	if out, err := exec.Command("/sbin/mke2fs", "-q", "-F", "-t", "ext4", device).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
	d := &disk{t: t, dir: host.Shared + "/disk"}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(device, d.dir, "ext4", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
		_ = os.Remove(d.dir) // the machine ends soon
	})
	if err := os.Chmod(d.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.fd, err = unix.Open(d.dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.IoctlSetInt(d.fd, fiThaw, 0) // EINVAL: the test has thawed it
		unix.Close(d.fd)
	})
	return d
}

func (d *disk) freeze() { d.set("freeze", fiFreeze) }
func (d *disk) thaw()   { d.set("thaw", fiThaw) }

func (d *disk) set(what string, request uint) {
	d.t.Helper()
	if err := unix.IoctlSetInt(d.fd, request, 0); err != nil {
		d.t.Fatalf("%s: %v", what, err)
	}
}
