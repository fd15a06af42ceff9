// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/groups"
)

func TestMain(m *testing.M) { bed.Main(m) }

// The figure is the host's, in bytes: less than all memory.
func TestReadFreeOfTheHost(t *testing.T) {
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		t.Fatal(err)
	}
	total := uint64(host.Totalram) * uint64(host.Unit)
	free, err := ReadFree(nil, nil)
	if err != nil || free.Group != "" || free.Bytes == 0 || free.Bytes >= total {
		t.Errorf("%+v of %d bytes, %v", free, total, err)
	}
}

// What is free without swapping is the kernel's estimate, and not the memory that nobody uses.
func TestParseAvailable(t *testing.T) {
	const text = "MemTotal:        4000 kB\nMemFree:          100 kB\nMemAvailable:    3000 kB\nBuffers: 7 kB\n"
	if free, err := parseAvailable([]byte(text)); free != 3000<<10 || err != nil {
		t.Errorf("%d, %v", free, err)
	}
	for _, text := range []string{"", "MemFree: 100 kB\n", "MemAvailable: many kB\n"} {
		if free, err := parseAvailable([]byte(text)); err == nil {
			t.Errorf("%q: %d", text, free)
		}
	}
}

// Groups without a limit change nothing, and the walk ends at the root that was given.
func TestReadFreeWithoutLimits(t *testing.T) {
	root := groups.Directory(t)
	above, err := root.Mkdir("above", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer above.Close()
	free, err := ReadFree(root, above)
	if err != nil || free.Group != "" || free.Bytes == 0 {
		t.Errorf("%+v, %v", free, err)
	}
}

func TestReclaimable(t *testing.T) {
	const stat = "anon 7000\nfile 300\nshmem 40\ninactive_file 100\nactive_file 160\nslab_reclaimable 5\nslab 9\n"
	if got := reclaimable([]byte(stat)); got != 265 {
		t.Errorf("%d", got)
	}
}

// A start whose client is dead goes on while stdin is held open, and ends when that is closed.
func TestWaitEndsWithoutAClient(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	dead := deadProcess(t)
	side := &client.Side{PIDFD: dead, Stdin: watchHangUp(t, read)}
	w := &Wait{MinFree: 1 << 60, Client: side, OnClientDeath: policy.AutoOnClientDeath}
	if !w.pause() {
		t.Error("it ended while stdin was open")
	}
	_ = write.Close() // a pipe
	err = w.UntilFree(nil, nil)
	if !errors.Is(err, ErrClientExited) || !Refused(err) {
		t.Errorf("%v", err)
	}
	w = &Wait{MinFree: 1 << 60, Client: side, OnClientDeath: policy.IgnoreClientDeath}
	if !w.pause() {
		t.Error("it ended although the death of the client does not count")
	}
}

// deadProcess is a pidfd of a process that has ended.
func deadProcess(t *testing.T) int {
	t.Helper()
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(pidfd) })
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	return pidfd
}

func watchHangUp(t *testing.T, f *os.File) client.Watch {
	t.Helper()
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(set) })
	event := &unix.EpollEvent{Events: unix.EPOLLRDHUP}
	if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, int(f.Fd()), event); err != nil {
		t.Fatal(err)
	}
	return client.Watch(set)
}
