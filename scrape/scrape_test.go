//go:build linux

package scrape

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const good = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

// serve serves "all is well" on loopback until the end of the test.
func serve(t testing.TB, body func() ([]byte, error)) string {
	t.Helper()
	return serveWithin(t, 0, body)
}

func serveWithin(t testing.TB, within time.Duration, body func() ([]byte, error)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Path: "/metrics", ContentType: "text/x; charset=utf-8", Body: body, within: within}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		_ = listener.Close() // it is what ends Serve
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return listener.Addr().String()
}

func well() ([]byte, error) { return []byte("all is well\n"), nil }

// exchange sends bytes and returns all that comes back.
func exchange(t testing.TB, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, request) // it may have been refused before its end
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("answer to %.60q: %v", request, err)
	}
	return string(answer)
}

// Go's own client, which is strict, reads what we say.
func TestAnswersAreHTTP(t *testing.T) {
	address := serve(t, well)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/metrics", 200, "all is well\n"},
		{"GET", "/metrics?x=y", 200, "all is well\n"},
		{"HEAD", "/metrics", 200, ""},
		{"GET", "/", 404, "404 Not Found\n"},
		{"GET", "/metrics/", 404, "404 Not Found\n"},
		{"DELETE", "/metrics", 405, "405 Method Not Allowed\n"},
	} {
		r, err := http.NewRequest(c.method, "http://"+address+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s %s: %v", c.method, c.path, err)
		}
		body, err := io.ReadAll(answer.Body)
		if answer.StatusCode != c.status || string(body) != c.body || err != nil || !answer.Close {
			t.Errorf("%s %s: %d %q, %v, want %d %q", c.method, c.path, answer.StatusCode, body, err, c.status, c.body)
		}
		if c.status == 200 && (answer.Header.Get("Content-Type") != "text/x; charset=utf-8" || answer.ContentLength != 12) {
			t.Errorf("%s %s: %v", c.method, c.path, answer.Header)
		}
		if allow := answer.Header.Get("Allow"); (c.status == 405) != (allow == "GET, HEAD") {
			t.Errorf("%s %s: Allow: %q", c.method, c.path, allow)
		}
		_ = answer.Body.Close() // read
	}
}

func TestBadRequests(t *testing.T) {
	address := serve(t, well)
	for _, request := range []string{
		"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics HTTP/2.0\r\nHost: x\r\n\r\n", "GET  /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n", "G ET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /metrics HTTP/1.1\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost : x\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", "GET /metrics HTTP/1.1\nHost: x\r\n\r\n", "GET /\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /" + strings.Repeat("a", 2*headMost) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if answer := exchange(t, address, request); !strings.HasPrefix(answer, "HTTP/1.1 400 Bad Request\r\n") {
			t.Errorf("%.60q: %.60q", request, answer)
		}
	}
	if answer := exchange(t, address, "GET /metrics HTTP/1.0\r\n\r\n"); !strings.HasSuffix(answer, "\r\n\r\nall is well\n") {
		t.Errorf("HTTP/1.0: %q", answer)
	}
}

func TestFailureIsTold(t *testing.T) {
	address := serve(t, func() ([]byte, error) { return nil, errors.New("out of figures") })
	if answer := exchange(t, address, good); !strings.HasPrefix(answer, "HTTP/1.1 500 ") || !strings.HasSuffix(answer, "\r\n\r\nout of figures\n") {
		t.Errorf("%q", answer)
	}
}

// Many who say nothing keep others waiting for a bounded time alone.
func TestSilentPeersAreBounded(t *testing.T) {
	const within = 500 * time.Millisecond
	address := serveWithin(t, within, well)
	for range connections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /metr") // and no more
	}
	begun := time.Now()
	if answer := exchange(t, address, good); !strings.HasSuffix(answer, "all is well\n") {
		t.Errorf("%q", answer)
	}
	if took := time.Since(begun); took < within/2 { // else they were not bounded by the slots
		t.Errorf("answered after %v: the number of connections is not bounded", took)
	}
}

// Serving is one at a time, however many ask.
func TestManyAtOnce(t *testing.T) {
	var mu sync.Mutex
	busy, most := 0, 0
	address := serve(t, func() ([]byte, error) {
		mu.Lock()
		busy++
		most = max(most, busy)
		mu.Unlock()
		defer func() {
			mu.Lock()
			busy--
			mu.Unlock()
		}()
		return well()
	})
	var wg sync.WaitGroup
	for range 3 * connections {
		wg.Go(func() {
			if answer := exchange(t, address, good); !strings.HasSuffix(answer, "all is well\n") {
				t.Errorf("%q", answer)
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d at a time", most)
	}
}

// What is accepted means the same to Go's own parser.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{good, "HEAD /metrics?a=%20 HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost:\r\nX-Y: z\r\n\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		r, ok := parse(head)
		if !ok {
			return
		}
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil || theirs.Method != r.method {
			t.Errorf("%q: %+v, to net/http %+v, %v", head, r, theirs, err)
		}
		if !isToken(r.method) || r.path == "" || strings.ContainsAny(r.path, " \r\n\t?") {
			t.Errorf("%q: %+v", head, r)
		}
		if _, whole := readHead(strings.NewReader(string(head))); len(head) <= headMost && !whole {
			t.Errorf("%q: accepted, and never read whole", head)
		}
	})
}
