// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"net"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The ends of connections within an agent keep it from nothing. All others do, and so does a listener that the agent
// does not use itself.
func TestAreAmongThemselves(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	open, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	outgoing, incoming := connect(t, listener)
	alsoOut, alsoIn := connect(t, open)
	of := func(socket syscall.Conn, isAgents bool) heldSocket { return held(t, socket, isAgents) }
	listens := listener.(*net.TCPListener)
	listensToAll := open.(*net.TCPListener)
	for name, c := range map[string]struct {
		sockets []heldSocket
		want    bool
	}{
		"both ends":                     {[]heldSocket{of(outgoing, true), of(incoming, true)}, true},
		"one end":                       {[]heldSocket{of(outgoing, true)}, false},
		"the other end":                 {[]heldSocket{of(incoming, true)}, false},
		"with a listener":               {[]heldSocket{of(outgoing, true), of(incoming, true), of(listens, true)}, true},
		"with a listener of a server":   {[]heldSocket{of(outgoing, true), of(incoming, true), of(listens, false)}, false},
		"a listener alone":              {[]heldSocket{of(listens, true)}, false},
		"with a listener for all hosts": {[]heldSocket{of(alsoOut, true), of(alsoIn, true), of(listensToAll, true)}, false},
		"unknown":                       {[]heldSocket{{os.Getpid(), 1, true}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := areAmongThemselves(c.sockets); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func connect(t *testing.T, to net.Listener) (outgoing, incoming *net.TCPConn) {
	t.Helper()
	_, port, err := net.SplitHostPort(to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	out, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	in, err := to.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return out.(*net.TCPConn), in.(*net.TCPConn)
}

func held(t *testing.T, socket syscall.Conn, isAgents bool) heldSocket {
	t.Helper()
	conn, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	failed := conn.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) })
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return heldSocket{os.Getpid(), st.Ino, isAgents}
}
