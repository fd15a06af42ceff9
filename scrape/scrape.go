//go:build linux

// Package scrape is the least of HTTP that a scraper of metrics needs: GET and HEAD of one
// path, one request to a connection.
//
// Whatever a peer sends or leaves out, it costs a bounded time and a bounded amount of
// memory. net/http would cost every start of mcpscope 0.35 ms, twice. The package does not
// know what it serves.
package scrape

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a connection, and of all of them.
const (
	headMost    = 8 << 10
	connections = 16
	within      = 10 * time.Second // for request and answer
	lingerFor   = time.Second      // for the peer to take in an answer before it has said all
	lingerMost  = 64 << 10
)

// Server answers on one path.
type Server struct {
	Path        string
	ContentType string
	// Body is called for each request, never twice at a time.
	Body func() ([]byte, error)

	within time.Duration // instead of the constant, in a test
	one    sync.Mutex
}

// Serve answers until the listener is closed, which is no error.
func (s *Server) Serve(listener net.Listener) error {
	slots := make(chan struct{}, connections)
	for {
		slots <- struct{}{} // the kernel keeps those that are too many waiting
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			<-slots
			if !temporary(err) {
				return fmt.Errorf("accept: %w", err)
			}
			<-time.After(lingerFor) // out of descriptors, which others may give back
			continue
		}
		go func() {
			defer func() { <-slots }()
			s.converse(conn)
		}()
	}
}

// converse takes one request. A peer that does not listen has itself to blame.
func (s *Server) converse(conn net.Conn) {
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(cmp.Or(s.within, within))) != nil {
		return
	}
	head, whole := readHead(conn)
	if len(head) == 0 {
		return // it said nothing
	}
	code, method := statusBadRequest, ""
	if r, ok := parse(head); ok && whole {
		code, method = s.judge(r), r.method
	}
	_, _ = conn.Write(s.answer(code, method))
	linger(conn)
}

// readHead reads up to and with the empty line; whole tells whether it came.
func readHead(conn io.Reader) (head []byte, whole bool) {
	buf := make([]byte, headMost)
	n := 0
	for n < len(buf) {
		more, err := conn.Read(buf[n:])
		n += more
		if end := bytes.Index(buf[:n], []byte("\r\n\r\n")); end >= 0 {
			return buf[:end+4], true
		}
		if err != nil {
			break
		}
	}
	return buf[:n], false
}

func (s *Server) judge(r request) status {
	switch {
	case r.path != s.Path:
		return statusNotFound
	case r.method != "GET" && r.method != "HEAD":
		return statusNotAllowed
	}
	return statusOK
}

// answer is all that we say; the body of a HEAD is only counted.
func (s *Server) answer(code status, method string) []byte {
	body, kind := []byte(code.String()+"\n"), "text/plain; charset=utf-8"
	if code == statusOK {
		found, err := s.body()
		if err == nil {
			body, kind = found, s.ContentType
		} else {
			code = statusFailed
			body = []byte(err.Error() + "\n")
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n", code, kind, len(body))
	if code == statusNotAllowed {
		b.WriteString("Allow: GET, HEAD\r\n")
	}
	b.WriteString("X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n")
	if method != "HEAD" {
		b.Write(body)
	}
	return b.Bytes()
}

func (s *Server) body() ([]byte, error) {
	s.one.Lock()
	defer s.one.Unlock()
	return s.Body()
}

// linger lets the peer read the answer: a close with something unread in it is a reset,
// which may throw the answer away.
func linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || conn.SetDeadline(time.Now().Add(lingerFor)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, lingerMost) // whatever it is
}

// temporary: the peer gave up before it was accepted, or descriptors or memory are short.
func temporary(err error) bool {
	for _, errno := range []error{unix.ECONNABORTED, unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EPROTO} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
