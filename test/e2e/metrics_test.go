// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/facts"
)

// An exporter is `mcpscope metrics --listen`.
type exporter struct {
	*escape.Talk
	t      *testing.T
	url    string
	client http.Transport // of its own: no other test closes its connections
}

func startExporter(w *world, where string) *exporter {
	w.T.Helper()
	cmd := w.mcpscope("metrics", "--listen", where)
	x := &exporter{Talk: escape.StartTalk(w.T, cmd, func() error { return escape.StartIn(w.Dir, cmd) }), t: w.T}
	w.T.Cleanup(x.client.CloseIdleConnections)
	x.url = strings.TrimPrefix(x.Line(), "listening on ")
	return x
}

// scrape reads the metrics as Prometheus does.
func (x *exporter) scrape(accept, want string) string {
	x.t.Helper()
	r, err := http.NewRequest("GET", x.url, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	answer, err := x.client.RoundTrip(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != 200 || err != nil || !strings.HasPrefix(kind, want) {
		x.t.Errorf("%s, %v: %s: %s", answer.Status, err, kind, text)
	}
	return string(text)
}

// The parser of Prometheus reads the metrics, no matter which name a server gives itself.
func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	evil := "evil\x1b[31m\n\"\\ # EOF\xff{}"
	facts.Set(t, s.group, func(f *protocol.Facts) { f.Name = evil })
	x := startExporter(w, "127.0.0.1:0")
	const openMetrics = "application/openmetrics-text;version=1.0.0"
	if text := x.scrape(openMetrics+",text/plain;q=0.5", "application/openmetrics-text"); !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("%q", text)
	}
	text := x.scrape("text/plain;version=0.0.4", "text/plain; version=0.0.4")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want := strings.NewReplacer("\x1b", "?", "\n", "?", "\xff", "\ufffd").Replace(evil)
	found := false
	for _, m := range families["mcpscope_server_processes"].GetMetric() {
		for _, label := range m.GetLabel() {
			found = found || label.GetName() == "name" && label.GetValue() == want
		}
	}
	if !found {
		t.Errorf("%q is not in\n%s", want, text)
	}
	if err := x.Cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = x.Wait() // by that signal
	s.Tell("close")
	s.dead()
}
