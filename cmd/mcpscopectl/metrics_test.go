// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

func TestMetricsMistakes(t *testing.T) {
	address := func(text, reason string) said {
		return usage("metrics", `--listen "`+text+`": `+reason)
	}
	checkSaid(t, map[string]said{
		"metrics time":                     usage("metrics", `unexpected argument "time"`),
		"metrics --listen 1 --textfile /x": usage("metrics", "--textfile and --listen exclude each other"),
		"metrics --listen http":            address("http", `"http" is not a port or address:port`),
		"metrics --listen example.org:1":   address("example.org:1", `"example.org" is not an IP address`),
	})
}

// What only root may see is refused before anything is served.
func TestMetricsOfAllUsersWithoutRoot(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		s := say("metrics", "--all-users", "--listen", "127.0.0.1:0")
		if s.status != cli.ExitFailure || s.out != "" || !strings.Contains(s.err, "only root") {
			t.Errorf("%+v", s)
		}
	})
}

// metricsOfAll is the command without a note about servers that other users have on this host.
func metricsOfAll() string {
	if os.Getuid() == 0 {
		return "metrics --all-users"
	}
	return "metrics"
}

func TestMetricsThatCannotBeWritten(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "missing", "m.prom")
	checkSaid(t, map[string]said{
		metricsOfAll() + " --textfile " + file: failure("write metrics: replace "+file+": no such file or directory", ""),
	})
}

// A text file takes the place of an ordinary file alone: as root, it could be that of /dev/null.
func TestMetricsReplaceOnlyFiles(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := say(append(strings.Fields(metricsOfAll()), "--textfile", fifo)...)
	if s.status != cli.ExitFailure || !strings.Contains(s.err, "FIFO") {
		t.Errorf("%+v", s)
	}
	if st, err := os.Lstat(fifo); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the FIFO is %v now (%v)", st, err)
	}
}

func TestMetricsOnABusyPort(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	address := busy.Addr().String()
	checkSaid(t, map[string]said{
		metricsOfAll() + " --listen " + address: failure("listen: listen tcp "+address+": bind: address already in use", ""),
	})
}

// A server that cannot answer any more ends.
func TestMetricsOfAClosedListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var f metricsFlags
	got := printed(func(stdio cli.Stdio) int { return f.answer(listener, stdio) })
	want := failure("serve metrics: accept tcp "+address+": use of closed network connection", "")
	want.out = "listening on http://" + address + "/metrics\n"
	wantSaid(t, "a closed listener", got, want)
}

// A text file ends without the mark of OpenMetrics, which its collector does not know.
func TestMetricsTexts(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s := say(strings.Fields(metricsOfAll())...)
	if s.status != cli.ExitOK || !strings.Contains(s.out, "\nmcpscope_servers{state=\"running\"} ") || !strings.HasSuffix(s.out, "\n# EOF\n") {
		t.Errorf("%+v", s)
	}
	file := filepath.Join(t.TempDir(), "m.prom")
	if s := say(append(strings.Fields(metricsOfAll()), "--textfile", file)...); s != (said{}) {
		t.Errorf("%+v", s)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "\nmcpscope_servers{state=\"running\"} ") || strings.Contains(string(text), "EOF") {
		t.Errorf("%s (%v)", text, err)
	}
}
