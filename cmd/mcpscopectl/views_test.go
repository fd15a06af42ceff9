// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

func someViews() []view {
	memory, peak, sum := uint64(52_428_800), uint64(104_857_600), uint64(3<<20)
	started := time.Date(2026, 11, 20, 8, 0, 0, 500_000_000, time.UTC)
	return []view{
		{
			ID: "k3x9w2ab", Name: "time", Backend: scope.SystemdUser, State: scope.Running, Client: processView{4711, "hermes"},
			Age: 3725, Processes: 3, CPU: 1.25, Memory: &memory, Peak: &peak, MemoryFrom: fromGroup, Started: &started,
		},
		{
			ID: "p0vv3khv", Name: "evil\x1b[31m\n\"\\", UID: 1000, Backend: scope.Tree, State: scope.Orphaned,
			Client: processView{12, "\xff"}, Age: 200000, Processes: 1, Memory: &sum, MemoryFrom: fromMembers,
		},
		{ID: "zzzzzzzz", Name: "zombie", Backend: scope.Cgroup, State: scope.Ending, Client: processView{12, "x"}},
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	writeTable(&out, someViews(), true, 0)
	want := `ID        NAME            STATE    AGE    PROCS  CPU   MEMORY  CLIENT        BACKEND       UID
k3x9w2ab  time            running  1h2m   3      1.2s  50M     hermes[4711]  systemd-user  0
p0vv3khv  evil?[31m?"\  orphan   2d7h   1      0.0s  ~3.0M   ` + "\ufffd" + `[12]         tree          1000
zzzzzzzz  zombie          ending   0.0s   0      0.0s  -       x[12]         cgroup        0
`
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if squeeze(out.String()) != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if writeTable(&out, nil, false, 0); out.Len() > 0 {
		t.Errorf("of no servers: %q", out.String())
	}
}

func TestMetrics(t *testing.T) {
	some := func() ([]view, error) { return append(someViews(), someViews()[0]), nil } // one of them twice
	text := func(format expfmt.Format) string {
		b, err := metricsText(source{some, func() int { return 3 }}, format)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	open := text(expfmt.NewFormat(expfmt.TypeOpenMetrics))
	for _, want := range []string{
		"# TYPE mcpscope_server_cpu_seconds counter\n# UNIT mcpscope_server_cpu_seconds seconds\n",
		`mcpscope_server_cpu_seconds_total{backend="systemd-user",client="hermes",id="k3x9w2ab",name="time"} 1.25` + "\n",
		`mcpscope_server_memory_bytes{backend="systemd-user",client="hermes",id="k3x9w2ab",name="time",source="group"} 5.24288e+07` + "\n",
		`name="evil?[31m?\"\\",source="members"} 3.145728e+06` + "\n",
		`mcpscope_server_start_time_seconds{backend="systemd-user",client="hermes",id="k3x9w2ab",name="time"} 1.7951616005e+09` + "\n",
		`client="` + "\ufffd" + `",id="p0vv3khv",name="evil?[31m?\"\\"`,
		`mcpscope_servers{state="orphan"} 1.0` + "\n",
		"mcpscope_duplicate_servers 1.0\n", "mcpscope_leaks 3.0\n",
	} {
		if !strings.Contains(open, want) {
			t.Errorf("%q is not in\n%s", want, open)
		}
	}
	if n := strings.Count(open, "mcpscope_server_memory_bytes{"); n != 2 ||
		!strings.HasSuffix(open, "\n# EOF\n") {
		t.Errorf("%d figures of memory, want 2, or no end\n%s", n, open)
	}
	plain := text(expfmt.NewFormat(expfmt.TypeTextPlain))
	if !strings.Contains(plain, "# TYPE mcpscope_server_cpu_seconds_total counter\n") {
		t.Error(plain)
	}
}

// Peers that send nothing, or too much, keep nobody else from an answer.
func TestMetricsServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := metricsServer(source{func() ([]view, error) { return someViews(), nil },
		func() int { return 0 }})
	done := make(chan error)
	go func() { done <- server.Serve(newBounded(listener)) }()
	defer func() {
		_ = server.Close()
		<-done
	}()
	silent := make([]net.Conn, connections-1)
	for i := range silent {
		if silent[i], err = net.Dial("tcp", listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer silent[i].Close()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/metrics": "200 OK", "/": "404 Not Found"} {
		answer, err := client.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body) // what came of it is looked at
		answer.Body.Close()
		if answer.Status != want || path == "/metrics" &&
			!strings.Contains(string(text), "mcpscope_servers") {
			t.Errorf("%s: %s: %s", path, answer.Status, text)
		}
	}
	endless := "GET /metrics HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10)
	if _, err := silent[0].Write([]byte(endless)); err != nil && !errors.Is(err, unix.ECONNRESET) &&
		!errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
	if answer, _ := io.ReadAll(silent[0]); !strings.HasPrefix(string(answer), "HTTP/1.1 431") &&
		len(answer) > 0 {
		t.Errorf("a head without end: %q", answer)
	}
}

func TestFindServers(t *testing.T) {
	all := []*scope.Listed{{ID: "abcd1234", Name: "time"}, {ID: "abzz9999", Name: "time"}, {ID: "time0000", Name: "other"}}
	for arg, want := range map[string]string{
		"abcd1234": "abcd1234", "abc": "abcd1234", "time": "abcd1234 abzz9999", "other": "time0000",
		"ab": `"ab" is the beginning of several ids: abcd1234 (time), abzz9999 (time)`, "": `there is no server ""`, "nobody-is-called-so": `there is no server "nobody-is-called-so"`,
	} {
		found, err := find(all, arg)
		var got []string
		for _, s := range found {
			got = append(got, s.ID)
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", arg, got, want)
		}
	}
}

func TestListenAddress(t *testing.T) {
	for arg, want := range map[string]string{
		"9500": "127.0.0.1:9500", ":9500": "127.0.0.1:9500", "localhost:9500": "127.0.0.1:9500", "0.0.0.0:9500": "0.0.0.0:9500", "[::1]:9500": "[::1]:9500",
		"fd:3": "fd:3", "": "", "fd:2": "", "fd:x": "", "70000": "", "host:9500": "", "::1:9500": "", "9500:9500:9500": "", "http": "",
	} {
		got, err := listenAddress(arg)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", arg, got, err, want)
		}
	}
}

func TestEventForPeople(t *testing.T) {
	at := time.UnixMicro(1795161600500000).Format(time.DateTime)
	const head = `{"__REALTIME_TIMESTAMP":"1795161600500000","_UID":"1000","MCPSCOPE_ID":"hxvqmwb5","MCPSCOPE_NAME":"time",` +
		`"MCPSCOPE_EVENT":`
	for text, want := range map[string]string{
		`"started","MCPSCOPE_BACKEND":"tree","MCPSCOPE_CLIENT":"h","MCPSCOPE_CLIENT_PID":"1"}`:    "started        tree, by h[1]",
		`"ended","MCPSCOPE_CAUSE":"main-exited","MCPSCOPE_SECONDS":"NaN","MCPSCOPE_STUCK":["a"]}`: "ended          main-exited, left: a",
		`"note","MCPSCOPE_NOTE":"not available: \u001b[31m\nx"}`:                                  "note           not available: ?[31m?x",
	} {
		want = at + "  hxvqmwb5  time              " + want
		lines := 0
		if err := readEntries(strings.NewReader("nonsense\n"+head+text+"\n"), func(e entry) error {
			lines++
			if v, ok := viewEvent(e); !ok || v.line(false, true) != want {
				t.Errorf("%s: %v\n%q\nwant\n%q", text, ok, v.line(false, true), want)
			}
			return nil
		}); err != nil || lines != 1 {
			t.Errorf("%s: %d entries, %v", text, lines, err)
		}
	}
}

// What a terminal would act on it does not get.
func TestShown(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	const line = "\x1b[31mred\a\tü\xff\u009b"
	if got := shown(w)(line); got != line {
		t.Errorf("into a pipe: %q", got)
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if got := shown(terminal)(line); got != "?[31mred?\tü\ufffd?" {
		t.Errorf("on a terminal: %q", got)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(`{"__REALTIME_TIMESTAMP":"1","_UID":"0","MCPSCOPE_ID":"a","MCPSCOPE_EVENT":"ended","MCPSCOPE_SECONDS":"1e400","MCPSCOPE_STUCK":[[1,2],null,"x"]}`)
	f.Add(`{"__REALTIME_TIMESTAMP":"9223372036854775807","_UID":"0","MCPSCOPE_ID":["a",1],"MCPSCOPE_EVENT":"started"}`)
	f.Fuzz(func(t *testing.T, line string) {
		_ = readEntries(strings.NewReader(line), func(e entry) error {
			v, ok := viewEvent(e)
			if !ok {
				return nil
			}
			if text, err := json.Marshal(v); err != nil || strings.ContainsAny(string(text), "\n\x1b") {
				t.Errorf("%q: %q, %v", line, text, err)
			}
			if text := v.line(true, true); text != cli.OneLine(text) {
				t.Errorf("%q: %q", line, text)
			}
			return nil
		})
	})
}
