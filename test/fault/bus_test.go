// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// way is one of the two sockets by which a manager can be reached.
type way struct {
	user   host.User
	socket string // which we take the place of
	hidden string // another, which would be taken first, or ""
}

// bus is between one mcpscope and its manager.
type bus struct {
	way      *way
	path     string
	listener *net.UnixListener
	watcher  *watcher
	bury     func()
	attached chan struct{}
	closed   chan struct{}
	serving  sync.WaitGroup
}

var buses atomic.Int32

func (y *way) listen(t *testing.T) *bus {
	t.Helper()
	b := &bus{way: y, path: filepath.Join(host.Shared, fmt.Sprint("bus.", buses.Add(1))), attached: make(chan struct{}), closed: make(chan struct{})}
	var err error
	if b.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: b.path, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	if err := os.Chmod(b.path, 0o666); err != nil {
		t.Fatal(err)
	}
	b.serving.Go(b.accept)
	return b
}

func (b *bus) attach(w *watcher) {
	b.watcher = w
	close(b.attached)
}

func (b *bus) close() {
	close(b.closed)
	_ = b.listener.Close() // which removes the socket
	b.serving.Wait()
}

// command is for a process that finds us where it looks for the manager.
func (b *bus) command(site *escape.Site, line []string) *exec.Cmd {
	const script = `mount --bind "$1" "$2" && { test -z "$3" || mount --bind /dev/null "$3"; } && shift 3 && exec "$@"`
	uid := fmt.Sprint(b.way.user.UID)
	all := []string{"unshare", "--mount", "--propagation", "private", "--", "sh", "-c", script, "sh", b.path, b.way.socket, b.way.hidden,
		"setpriv", "--reuid=" + uid, "--regid=" + uid, "--clear-groups", "--"}
	cmd := exec.Command(all[0], append(all[1:], line...)...)
	cmd.Env = site.Command(line...).Env
	return cmd
}

func (b *bus) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.serving.Go(func() { b.serve(conn) })
	}
}

// serve passes messages on in both directions, until one of the ends has gone.
func (b *bus) serve(client net.Conn) {
	defer client.Close()
	select {
	case <-b.attached:
	case <-b.closed:
		return
	}
	manager, err := dialAs(b.way.user.UID, b.way.socket)
	if err != nil {
		return // mcpscope sees a manager that hangs up
	}
	defer manager.Close()
	over := make(chan struct{}, 2)
	b.serving.Go(func() { b.pass(toManager, client, manager); over <- struct{}{} })
	b.serving.Go(func() { b.pass(fromManager, manager, client); over <- struct{}{} })
	select {
	case <-over:
	case <-b.closed:
	}
}

// dialAs connects as a user: a manager talks to nobody else, and looks who it was that
// connected. The ids are a thread's own; this one ends with its goroutine.
func dialAs(uid int, path string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			err = os.NewSyscallError("setresuid", errno)
			return
		}
		conn, err = net.Dial("unix", path)
	}()
	<-done
	return conn, err
}

// pass lets the messages of one direction go on, but for one.
func (b *bus) pass(direction role, from, to net.Conn) {
	for r := bufio.NewReader(from); ; {
		m, err := next(r)
		if err != nil {
			return
		}
		switch b.met(direction, m) {
		case hangUp:
			return
		case refuse:
			if direction == toManager {
				_, _ = from.Write(m.refusal()) // it may have gone
				continue
			}
			m = m.refusal()
		case delay:
			select {
			case <-time.After(delayed):
			case <-b.closed:
				return
			}
		case bury:
			b.bury()
		case stall:
			<-b.closed
			return
		}
		if _, err := to.Write(m); err != nil {
			return
		}
	}
}

// met notes a message, and says what is to be done with it.
func (b *bus) met(direction role, m message) act {
	w := b.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	at := point{role: direction, call: m.label()}
	w.counts[at]++
	at.n = w.counts[at]
	if w.shot == nil {
		w.visits = append(w.visits, visit{at, w.phase, w.alive(), nil})
	}
	if !w.hit(at) {
		return ""
	}
	w.killAll(w.shot.kill)
	return w.shot.act
}
