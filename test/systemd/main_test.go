// Package systemd tests the scopes that mcpscope asks a real systemd for, in a booted
// host of the test run's own (test/host).
package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/host"
)

const patience = 30 * time.Second

var mcpscope = host.Shared + "/mcpscope"

func TestMain(m *testing.M) { host.Main(m, host.Options{Users: true, Build: build}) }

func build(dir string) error {
	cmd := exec.Command("go", "build", "-o", dir+"/mcpscope", "../../cmd/mcpscope")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// both runs a test against the system manager, as root, and a user's.
func both(t *testing.T, test func(t *testing.T, u host.User)) {
	for _, u := range []host.User{host.Root, host.Tester} {
		t.Run(u.Name, func(t *testing.T) { test(t, u) })
	}
}

// slice is where the scopes of a user are.
func slice(u host.User) string {
	if u.UID == 0 {
		return "/sys/fs/cgroup/mcp.slice"
	}
	id := strconv.Itoa(u.UID)
	return "/sys/fs/cgroup/user.slice/user-" + id + ".slice/user@" + id + ".service/mcp.slice"
}

// scopes lists the directories of the scopes named after a server.
func scopes(u host.User, name string) []string {
	found, _ := filepath.Glob(slice(u) + "/mcp-" + name + "-*.scope") // the pattern is valid
	return found
}

// process is a member, held by a pidfd.
type process struct{ pid, fd int }

func (p process) alive() bool { return !ended(p.fd, 0) }

func ended(fd int, limit time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// processes opens all that are in a directory of a scope.
func processes(t *testing.T, dir string) []process {
	t.Helper()
	text, err := os.ReadFile(dir + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	var all []process
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatalf("open %d of %s: %v", pid, dir, err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		all = append(all, process{pid, fd})
	}
	return all
}

// dead fails the test if one of the processes outlives the limit.
func dead(t *testing.T, what string, all []process) {
	t.Helper()
	if len(all) == 0 {
		t.Errorf("%s: there was none, so this tests nothing", what)
	}
	for _, p := range all {
		if !ended(p.fd, patience) {
			status, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
			t.Errorf("%s: %d lives:\n%s", what, p.pid, status)
		}
	}
}

// gone waits until systemd has removed a scope.
func gone(t *testing.T, dir string) {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	_, err = unix.InotifyAddWatch(watch, filepath.Dir(dir), unix.IN_DELETE)
	if err == unix.ENOENT {
		return // with its slice
	}
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		if _, err := os.Stat(dir); err != nil {
			return
		}
		if !ended(watch, time.Until(deadline)) {
			t.Fatalf("%s is left", dir)
		}
		_, _ = unix.Read(watch, make([]byte, 4096))
	}
}

// awaitFile waits until a file is there.
func awaitFile(t *testing.T, file string) {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, filepath.Dir(file), unix.IN_CREATE|unix.IN_CLOSE_WRITE); err != nil {
		t.Fatalf("watch for %s: %v", file, err)
	}
	for deadline := time.Now().Add(patience); ; {
		if st, err := os.Stat(file); err == nil && st.Size() > 0 {
			return
		}
		if !ended(watch, time.Until(deadline)) {
			t.Fatalf("%s does not come", file)
		}
		_, _ = unix.Read(watch, make([]byte, 4096))
	}
}
