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
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func someViews() []view {
	memory, peak, sum := uint64(52_428_800), uint64(104_857_600), uint64(3<<20)
	started := time.Date(2026, 11, 20, 8, 0, 0, 500_000_000, time.UTC)
	return []view{
		{
			ID: "k3x9w2ab", Name: "time", Backend: protocol.SystemdUser, State: fleet.Running, Client: processView{4711, "hermes"},
			Age: 3725, Processes: 3, CPU: 1.25, Memory: &memory, Peak: &peak, MemoryFrom: fromGroup, Started: &started,
		},
		{
			ID: "p0vv3khv", Name: "evil\x1b[31m\n\"\\", UID: 1000, Backend: protocol.Tree, State: fleet.Orphaned,
			Client: processView{12, "\xff"}, Age: 200000, Processes: 1, Memory: &sum, MemoryFrom: fromMembers,
		},
		{ID: "zzzzzzzz", Name: "zombie", Backend: protocol.Cgroup, State: fleet.Ending, Client: processView{12, "x"}},
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
	some := func() (all []measured, err error) { // one of them twice
		for _, v := range append(someViews(), someViews()[0]) {
			all = append(all, measured{view: v})
		}
		return all, nil
	}
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
	server := metricsServer(source{func() ([]measured, error) { return []measured{{view: someViews()[0]}}, nil },
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
	all := []*fleet.Listed{{ID: "abcd1234", Name: "time"}, {ID: "abzz9999", Name: "time"}, {ID: "time0000", Name: "other"}}
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

// Nothing that a terminal would act on is printed, and no byte is lost in JSON.
func TestEntry(t *testing.T) {
	at := time.UnixMicro(1795161600500000).Format(time.DateTime)
	const head = `{"__REALTIME_TIMESTAMP":"1795161600500000","_UID":"1000","MESSAGE":`
	for text, want := range map[string]string{
		`"time (hxvqmwb5) ended"}`: "time (hxvqmwb5) ended", `"\u001b[31mred\u0007\tü\u009b"}`: "?[31mred?\tü?",
		`[97,255,27]}`: "a\ufffd?", `null}`: "", `["a\nb","c"]}`: "a?b", `[[97,98],"c"]}`: "ab", `{"x":1}}`: "",
	} {
		var all []string
		err := readLines(strings.NewReader(head+text+"\nhalf a line"), func(line []byte) error {
			var e entry
			err := json.Unmarshal(line, &e)
			all = append(all, e.line())
			return err
		})
		if err != nil || len(all) != 1 || all[0] != at+"  "+want {
			t.Errorf("%s: %q, %v", text, all, err)
		}
	}
	var out bytes.Buffer
	f := logsFlags{json: true}
	if err := f.print([]byte("{\"MESSAGE\":\"a\u009b\"}\n"), cli.Stdio{Out: &out}); err != nil || out.String() != "{\"MESSAGE\":\"a\\u009b\"}\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// A line that is too long is passed over, and the next one is read.
func TestLongLine(t *testing.T) {
	var all []string
	err := readLines(strings.NewReader(strings.Repeat("x", 2*entryMost+7)+"\nnext\n"), func(line []byte) error {
		all = append(all, string(line))
		return nil
	})
	if err != nil || len(all) != 1 || all[0] != "next\n" {
		t.Errorf("%q, %v", all, err)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(`{"__REALTIME_TIMESTAMP":"1","_UID":"0","MCPSCOPE_ID":"a","MESSAGE":[[1,2],null,"x"]}`)
	f.Add(`{"__REALTIME_TIMESTAMP":"9223372036854775807","MESSAGE":[27,1e9],"MCPSCOPE_ID":["a",1]}`)
	f.Fuzz(func(t *testing.T, line string) {
		var e entry
		if json.Unmarshal([]byte(line), &e) != nil {
			return
		}
		if text := strings.ReplaceAll(e.line(), "\t", ""); text != cli.OneLine(text) {
			t.Errorf("%q: %q", line, text)
		}
	})
}
