// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// An exporter is `mcpscope metrics --listen`.
type exporter struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

func startExporter(w *world, where string, passed ...*os.File) *exporter {
	w.T.Helper()
	x := &exporter{t: w.T, cmd: w.mcpscope("metrics", "--listen", where)}
	x.cmd.ExtraFiles = passed
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		w.T.Fatal(err)
	}
	if err := escape.StartIn(w.Dir, x.cmd); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		_ = x.cmd.Process.Kill() // it may have ended
		_ = x.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		w.T.Fatalf("it says %q, %v", line, err)
	}
	x.url = url
	return x
}

// scrape is what Prometheus does.
func (x *exporter) scrape() string {
	x.t.Helper()
	r, err := http.NewRequest("GET", x.url, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != 200 || err != nil || !strings.HasPrefix(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8") {
		x.t.Errorf("%s, %v: %s: %s", answer.Status, err, kind, text)
	}
	return string(text)
}

func (x *exporter) terminate() {
	x.t.Helper()
	if err := x.cmd.Process.Signal(unix.SIGTERM); err != nil {
		x.t.Error(err)
	}
	if err := x.cmd.Wait(); err != nil {
		x.t.Errorf("after SIGTERM: %v", err)
	}
}

func (x *exporter) descriptors() int {
	x.t.Helper()
	open, err := escape.OpenFiles(x.cmd.Process.Pid)
	if err != nil {
		x.t.Fatal(err)
	}
	return len(open)
}

// Whatever a server calls itself, Prometheus' own parser reads what is served.
func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	parser := filepath.Join(t.TempDir(), "openmetrics")
	if out, err := exec.Command("go", "build", "-C", "../openmetrics", "-o", parser, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the parser: %v: %s", err, out)
	}
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	evil := "evil\x1b[31m\n\"\\ # EOF\xff{}"
	if err := unix.Setxattr(s.group+"/payload", "user.mcpscope.name", []byte(evil), 0); err != nil {
		t.Fatal(err)
	}
	x := startExporter(w, "0")
	if !strings.HasPrefix(x.url, "http://127.0.0.1:") {
		t.Errorf("a port alone is served at %s", x.url)
	}
	text := x.scrape()
	cmd := exec.Command(parser)
	cmd.Stdin = strings.NewReader(text)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, said.String(), text)
	}
	// quoted twice: as a label, and for the line
	want := fmt.Sprintf("name=%q", strings.NewReplacer("\x1b", "?", "\n", "?", "\xff", "\ufffd").Replace(evil))
	if got := string(out); !strings.Contains(got, strings.Trim(fmt.Sprintf("%q", want), `"`)) || !strings.Contains(got, "mcpscope_server_processes") {
		t.Errorf("%s is not in\n%s", want, got)
	}
	before := x.descriptors()
	for range 100 {
		x.scrape()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	// a connection may be on its way out
	for deadline := time.Now().Add(escape.Patience); x.descriptors() > before+2; escape.PollFor(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors, after 100 scrapes %d", before, x.descriptors())
		}
	}
	x.terminate()
	s.Tell("close")
	s.dead(escape.Patience)
}

// systemd passes a socket on.
func TestMetricsOnAPassedSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	x := startExporter(w, "fd:3", file)
	if text := x.scrape(); !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("%q", text)
	}
	x.terminate()
}
