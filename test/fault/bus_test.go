// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// way is the socket of a manager.
type way struct {
	user   host.User
	socket string // which we take the place of
}

// bus is between one mcpscope and its manager.
type bus struct {
	way      *way
	path     string
	listener *net.UnixListener
	watcher  *watcher
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
	const script = `mount --bind "$1" "$2" && shift 2 && exec "$@"`
	uid := fmt.Sprint(b.way.user.UID)
	all := []string{"unshare", "--mount", "--propagation", "private", "--", "sh", "-c", script, "sh", b.path, b.way.socket,
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

// serve passes messages on in both directions, until one of the ends is closed.
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

// dialAs connects as a user: a manager answers no other user, and checks the peer's
// uid. The ids are a thread's own; the thread ends with its goroutine.
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
			_, _ = from.Write(m.refusal()) // it may be closed
			continue
		case stall:
			<-b.closed
			return
		}
		if _, err := to.Write(m); err != nil {
			return
		}
	}
}

// met notes a message, and returns the act for it.
func (b *bus) met(direction role, m message) act {
	w := b.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	at := point{role: direction, call: m.label()}
	w.counts[at]++
	at.n = w.counts[at]
	if w.shot == nil {
		w.visits = append(w.visits, visit{at, w.alive(), nil})
	}
	if !w.hit(at) {
		return ""
	}
	w.killAll(w.shot.kill)
	return w.shot.act
}

// message is a line of a D-Bus connection's handshake, or a message after that, whole.
type message []byte

// next reads one. Every byte that begins a line differs from 'l', which says that a
// message is little-endian.
func next(r *bufio.Reader) (message, error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if first[0] != 'l' {
		line, err := r.ReadBytes('\n')
		return line, err
	}
	head, err := r.Peek(16)
	if err != nil {
		return nil, err
	}
	fields := int(binary.LittleEndian.Uint32(head[12:]))
	body := int(binary.LittleEndian.Uint32(head[4:]))
	all := make(message, 16+(fields+7)/8*8+body)
	_, err = io.ReadFull(r, all)
	return all, err
}

func (m message) isLine() bool { return m[0] != 'l' }

func (m message) decode() *dbus.Message {
	if m.isLine() {
		return nil
	}
	d, err := dbus.DecodeMessage(bytes.NewReader(m))
	if err != nil {
		return nil
	}
	return d
}

// label says what it is, for a point's name.
func (m message) label() string {
	if m.isLine() {
		word, _, _ := bytes.Cut(bytes.Trim(m, "\x00\r\n"), []byte(" "))
		return string(word)
	}
	d := m.decode()
	if d == nil {
		return "unknown"
	}
	kind := map[dbus.Type]string{
		dbus.TypeMethodCall: "call", dbus.TypeMethodReply: "reply", dbus.TypeError: "error", dbus.TypeSignal: "signal",
	}[d.Type]
	if member, has := d.Headers[dbus.FieldMember]; has {
		return fmt.Sprint(kind, " ", member.Value())
	}
	return kind
}

// refusal is the answer of one who does not do what m asks.
func (m message) refusal() message {
	d := m.decode()
	if d == nil {
		return message("REJECTED EXTERNAL\r\n")
	}
	no := &dbus.Message{
		Type: dbus.TypeError,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldErrorName:   dbus.MakeVariant("org.freedesktop.DBus.Error.LimitsExceeded"),
			dbus.FieldReplySerial: dbus.MakeVariant(d.Serial()),
			dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf("")),
		},
		Body: []any{"as the test wants it"},
	}
	var out bytes.Buffer
	if err := no.EncodeTo(&out, binary.LittleEndian); err != nil {
		return nil
	}
	// EncodeTo leaves the serial at 0, which no message may have
	b := out.Bytes()
	binary.LittleEndian.PutUint32(b[8:], 0x7fffffff)
	return b
}
