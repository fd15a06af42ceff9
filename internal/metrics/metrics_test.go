// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

func someViews() []render.Server {
	memory, peak, sum := uint64(52_428_800), uint64(104_857_600), uint64(3<<20)
	started := time.Date(2026, 11, 20, 8, 0, 0, 500_000_000, time.UTC)
	return []render.Server{
		{
			Identity: render.Identity{
				ID: "k3x9w2ab", Name: "time", Backend: names.SystemdUser, State: fleet.Running,
				Client: render.Process{PID: 4711, Name: "hermes"},
			},
			Age: 3725, Started: &started, Role: "name time",
			Figures: render.Figures{Processes: 3, CPU: 1.25, Memory: &memory, Peak: &peak, MemoryFrom: "group"},
		},
		{
			Identity: render.Identity{
				ID: "p0vv3khv", Name: "evil\x1b[31m\n\"\\", UID: 1000, Backend: names.Tree, State: fleet.Orphaned,
				Client: render.Process{PID: 12, Name: "\xff"},
			},
			Age:     200000,
			Figures: render.Figures{Processes: 1, Memory: &sum, MemoryFrom: "members"},
		},
		{Identity: render.Identity{
			ID: "zzzzzzzz", Name: "zombie", Backend: names.Cgroup, State: fleet.Terminating,
			Client: render.Process{PID: 12, Name: "x"},
		}},
	}
}

func TestMetrics(t *testing.T) {
	some := func() (Measured, error) { // one of them twice, and another one can't be read
		return Measured{Servers: append(someViews(), someViews()[0])}, errors.New("unreadable")
	}
	text, err := textOf(Source{
		Servers:     some,
		Leaks:       func(Measured) (int, error) { return 3, nil },
		Uncontained: func() int { return 2 },
		Gateways:    func() int { return 1 },
		Ends: func() (map[causes.Cause]int, error) {
			return map[causes.Cause]int{causes.MemoryExhausted: 4}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	open := string(text)
	for _, want := range []string{
		"# TYPE mcpscope_server_cpu_seconds counter\n# UNIT mcpscope_server_cpu_seconds seconds\n",
		`mcpscope_server_cpu_seconds_total{backend="systemd-user",client="hermes",id="k3x9w2ab",name="time",uid="0"} 1.25` + "\n",
		`mcpscope_server_memory_bytes{backend="systemd-user",client="hermes",id="k3x9w2ab",name="time",source="group",uid="0"} 5.24288e+07` + "\n",
		`name="evil?[31m?\"\\",source="members",uid="1000"} 3.145728e+06` + "\n",
		`mcpscope_server_start_time_seconds{backend="systemd-user",client="hermes",id="k3x9w2ab",name="time",uid="0"} 1.7951616005e+09` + "\n",
		`client="` + "\ufffd" + `",id="p0vv3khv",name="evil?[31m?\"\\"`,
		`mcpscope_servers{state="orphan"} 1.0` + "\n",
		`mcpscope_client_servers{client="hermes",state="running"} 2.0` + "\n",
		`mcpscope_client_memory_bytes{client="hermes",state="running"} 1.048576e+08` + "\n",
		"mcpscope_duplicate_servers 1.0\n", "mcpscope_leaks 3.0\n", "mcpscope_uncontained_servers 2.0\n", "mcpscope_uncontained_gateways 1.0\n",
		`mcpscope_server_ends_total{cause="out-of-memory"} 4.0` + "\n", "mcpscope_journal_readable 1.0\n",
		"mcpscope_servers_readable 0.0\n",
	} {
		if !strings.Contains(open, want) {
			t.Errorf("%q is not in\n%s", want, open)
		}
	}
	if n := strings.Count(open, "mcpscope_server_memory_bytes{"); n != 2 ||
		!strings.HasSuffix(open, "\n# EOF\n") {
		t.Errorf("%d figures of memory, want 2, or no end\n%s", n, open)
	}
}

// Without any server that can be read there is an error, and no text that could be taken for no servers.
func TestMetricsOfNoReadableServer(t *testing.T) {
	unreadable := errors.New("unreadable")
	text, err := textOf(Source{Servers: func() (Measured, error) { return Measured{}, unreadable }})
	if err != unreadable || text != nil {
		t.Errorf("%q (%v)", text, err)
	}
}

// However users call their clients, a host has a bounded number of series beside those of each server.
func TestClientsAreBounded(t *testing.T) {
	var servers []render.Server
	for i := range 3 * clientsMost {
		v := someViews()[0]
		v.ID = fmt.Sprintf("id%06d", i)
		v.Client.Name = fmt.Sprintf("client%d", i)
		servers = append(servers, v, v) // a client with one server more than hermes
		servers[2*i+1].ID += "b"
	}
	servers = append(servers, someViews()...)
	text, err := textOf(Source{
		Servers:     func() (Measured, error) { return Measured{Servers: servers}, nil },
		Leaks:       func(Measured) (int, error) { return 0, nil },
		Uncontained: func() int { return 0 },
		Gateways:    func() int { return 0 },
		Ends:        func() (map[causes.Cause]int, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = clientsMost + 3 // other has three states
	if n := strings.Count(string(text), "\nmcpscope_client_servers{"); n != want {
		t.Errorf("%d series of clients, want %d", n, want)
	}
	rest := fmt.Sprintf("mcpscope_client_servers{client=\"other\",state=\"running\"} %d.0\n", 2*2*clientsMost+1)
	if !strings.Contains(string(text), rest) {
		t.Errorf("%q is not in\n%s", rest, text)
	}
}

func TestDuplicates(t *testing.T) {
	server := func(uid, client int, role string) render.Server {
		v := render.Server{Role: role}
		v.UID = uid
		v.Client.PID = client
		return v
	}
	servers := []render.Server{
		server(1, 7, "a"), server(1, 7, "a"), server(1, 7, "a"), server(1, 7, "b"), server(1, 8, "a"), server(2, 7, "a"),
	}
	if got := duplicates(servers); got != 2 {
		t.Errorf("%d, want 2", got)
	}
}

// Peers that send nothing, or too much, do not block other peers.
func TestMetricsServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	none := func() int { return 0 }
	server := NewServer(Source{
		Servers:     func() (Measured, error) { return Measured{Servers: someViews()[:1]}, nil },
		Leaks:       func(Measured) (int, error) { return 0, errors.New("unknown") },
		Uncontained: none,
		Gateways:    none,
		Ends:        func() (map[causes.Cause]int, error) { return nil, errors.New("no journal") },
	})
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		_ = server.Close()
		<-done
	}()
	silent := make([]net.Conn, answersMost)
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
		text, _ := io.ReadAll(answer.Body) // checked below
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

func TestListenAddress(t *testing.T) {
	for arg, want := range map[string]string{
		"9500": "127.0.0.1:9500", ":9500": "127.0.0.1:9500", "localhost:9500": "127.0.0.1:9500", "0.0.0.0:9500": "0.0.0.0:9500", "[::1]:9500": "[::1]:9500",
		"": "", "fd:3": "", "70000": "", "host:9500": "", "::1:9500": "", "9500:9500:9500": "", "http": "",
	} {
		got, err := ListenAddress(arg)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", arg, got, err, want)
		}
	}
}
