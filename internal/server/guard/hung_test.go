// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// hungFiles is a file system whose server does not answer, as NFS without its network. Its file can be opened
// twice at most, and not be read.
type hungFiles struct {
	t     *testing.T
	fd    int
	dir   string
	mode  uint32 // of the file
	opens int
	reads bool   // a process reads by the first open
	later uint64 // the second open, which waits until one does
	asked chan struct{}
	end   sync.Once
}

const hungFile = "hung"

// Parts of fuse(4).
const (
	fuseLookup  = 1
	fuseForget  = 2
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseInit    = 26
	fuseStop    = 36
	fuseForgets = 42
	fuseRoot    = 1
	fuseDirect  = 1 | 2   // FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE
	fuseForever = 1 << 30 // seconds
)

type fuseRequest struct {
	Size, Op         uint32
	ID, Node         uint64
	UID, GID, PID, _ uint32
}

type fuseAttr struct {
	Ino, Size, Blocks                      uint64
	_                                      [3]uint64 // times
	_                                      [3]uint32
	Mode, Nlink, UID, GID, Rdev, BlockSize uint32
	_                                      uint32
}

var fuse = bed.Feature{Name: "FUSE", Missing: func() error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}}

// mountHung mounts one until the test ends. asked tells that a process waits for it: in read(2), or in the
// exec of a program.
func mountHung(t *testing.T, mode uint32) *hungFiles {
	t.Helper()
	bed.Require(t, fuse)
	h := &hungFiles{t: t, dir: escape.OpenDir(t), mode: mode, asked: make(chan struct{})}
	var err error
	h.fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	how := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", h.fd)
	if err := unix.Mount("hung", h.dir, "fuse", 0, how); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.fail)
	go h.serve()
	return h
}

func (h *hungFiles) file() string { return filepath.Join(h.dir, hungFile) }

// fail ends each call that waits, by an error.
func (h *hungFiles) fail() {
	h.end.Do(func() {
		_ = unix.Unmount(h.dir, unix.MNT_FORCE) // EBUSY, after it has ended the connection
		if err := unix.Unmount(h.dir, unix.MNT_DETACH); err != nil {
			h.t.Error(err)
		}
	})
}

func (h *hungFiles) serve() {
	defer unix.Close(h.fd)
	for buf := make([]byte, 1<<16); ; {
		n, err := unix.Read(h.fd, buf)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil {
			return // ENODEV: it is unmounted
		}
		var r fuseRequest
		_, _ = binary.Decode(buf[:n], binary.NativeEndian, &r) // the kernel sends no part of one
		h.answer(&r)
	}
}

func (h *hungFiles) answer(r *fuseRequest) {
	switch r.Op {
	case fuseInit:
		h.reply(r.ID, 0, []uint32{7, 31, 4096, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	case fuseLookup:
		h.reply(r.ID, 0, []uint64{fuseRoot + 1, 0, fuseForever, fuseForever, 0}, h.attributes(fuseRoot+1))
	case fuseGetattr:
		h.reply(r.ID, 0, []uint64{fuseForever, 0}, h.attributes(r.Node))
	case fuseOpen:
		h.open(r)
	case fuseRead:
		h.reads = true
		h.openAgain()
	case fuseForget, fuseForgets, fuseStop: // these want no answer
	default:
		h.reply(r.ID, unix.ENOSYS)
	}
}

func (h *hungFiles) open(r *fuseRequest) {
	isProgram := h.mode&0o111 != 0
	h.opens++
	switch {
	case isProgram:
		h.tell()
	case h.opens == 1:
		h.reply(r.ID, 0, []uint64{0, 0})
	default:
		h.later = r.ID
		h.openAgain()
	}
}

// openAgain answers the second open when both are there, in either order: two threads ask.
func (h *hungFiles) openAgain() {
	if h.later == 0 || !h.reads {
		return
	}
	h.reply(h.later, 0, []uint64{0, fuseDirect})
	h.tell()
}

func (h *hungFiles) tell() {
	select {
	case <-h.asked:
	default:
		close(h.asked)
	}
}

func (h *hungFiles) attributes(node uint64) fuseAttr {
	if node == fuseRoot {
		return fuseAttr{Ino: node, Mode: unix.S_IFDIR | 0o755, Nlink: 2}
	}
	return fuseAttr{Ino: node, Size: 4096, Mode: unix.S_IFREG | h.mode, Nlink: 1}
}

func (h *hungFiles) reply(id uint64, e unix.Errno, parts ...any) {
	var body bytes.Buffer
	for _, part := range parts {
		_ = binary.Write(&body, binary.NativeEndian, part) // into memory
	}
	head := struct {
		Size  uint32
		Error int32
		ID    uint64
	}{uint32(16 + body.Len()), -int32(e), id}
	text, _ := binary.Append(nil, binary.NativeEndian, head)
	_, _ = unix.Write(h.fd, append(text, body.Bytes()...)) // ENOENT: the process was killed meanwhile
}

// hangEnv has the first thread of this program hang in mmap(2) of that file, with the lock of its memory.
const hangEnv = "GUARD_HANG"

// The first thread runs this; a later call may run on another one.
func init() {
	if file := os.Getenv(hangEnv); file != "" {
		hang(file)
		os.Exit(0)
	}
}

func hang(file string) {
	cached := openFile(file, unix.O_RDONLY)
	go unix.Read(cached, make([]byte, 1)) // that page of the file is locked from then on
	direct := openFile(file, unix.O_RDONLY)
	_, err := unix.Mmap(direct, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE) // drops what is cached
	check(err)
}

// isIn reports whether the first thread of a process is in that state.
func isIn(pid, state string) bool {
	text, _ := os.ReadFile("/proc/" + pid + "/stat") // it may have ended
	return strings.Contains(string(text), ") "+state+" ")
}

// isGone reports whether a process is dead, or a zombie.
func isGone(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err != nil || isIn(pid, "Z")
}

// A member that waits for a file system with the lock of its memory does not keep the guard from the kill.
func TestKillBesideAMemberThatHangs(t *testing.T) {
	h := mountHung(t, 0o600)
	const script = "%s=%s %s & echo $!; sleep 1000 & echo $!; wait"
	r := start(t, fmt.Sprintf(script, hangEnv, h.file(), copyOfProgram(t)), nil)
	hanging := r.line()
	other := r.line()
	<-h.asked
	if !pace.Eventually(patience, func() bool { return isIn(hanging, "D") }) {
		t.Fatalf("the member does not hang; %s", r.stderr.String())
	}
	r.signal(r.Process, unix.SIGKILL)
	if !pace.Eventually(patience, func() bool { return isGone(other) }) {
		t.Errorf("a member is left; log %q", r.log())
	}
	h.fail()
	r.status()
	r.wantNothing()
}

// A helper whose program is on a file system that hangs does not keep the guard from its duty.
func TestEndBesideAHelperThatHangs(t *testing.T) {
	for name, killGuard := range map[string]func(*run){
		"launcher": func(*run) {}, "guard, launcher": (*run).killGuard,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := mountHung(t, 0o700)
			r := start(t, "sleep 1000 & echo $!; wait", func(c *config) {
				c.Program = h.file()
				c.Idles = true // a first helper starts at once
			})
			member := r.line()
			<-h.asked
			killGuard(r)
			r.signal(r.Process, unix.SIGKILL)
			if !pace.Eventually(patience, func() bool { return isGone(member) }) {
				t.Errorf("a member is left; log %q", r.log())
			}
			h.fail()
			r.status()
			r.wantNothing()
		})
	}
}
