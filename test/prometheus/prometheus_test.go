// SPDX-License-Identifier: Apache-2.0

// Package prometheus has Debian's Prometheus and node_exporter read what mcpscope says of servers.
// They run in a network namespace that has nothing but a loopback of its own.
package prometheus

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

var programs = os.Getenv(programsEnv)

const (
	programsEnv = "SCRAPED_PROGRAMS"
	insideEnv   = "SCRAPED_INSIDE"
)

func TestMain(m *testing.M) {
	bed.Main(m, func() (func(), error) {
		return escape.BuildTemporary(func(dir string) map[string][]string {
			programs = dir
			_ = os.Setenv(programsEnv, dir) // a valid name
			return nil
		})
	})
}

// find finds a program where it is installed, or where .ci/deps has put it.
func find(t *testing.T, name string) string {
	t.Helper()
	if file, err := exec.LookPath(name); err == nil {
		return file
	}
	file, err := filepath.Abs("../../.cache/prometheus/usr/bin/" + name)
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		t.Skipf("%s is not here: .ci/deps fetches it", name)
	}
	return file
}

// inside runs the same test again in a network namespace, and in a pid namespace, where no server of another test is to be seen; it
// returns true there.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), insideEnv+"=1")
		cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return false
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatal(err)
	}
	return true
}

// start starts a program that is ended with the test.
func start(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM) // it may have ended
		_ = cmd.Wait()                       // as it was asked to
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s:\n%s", filepath.Base(name), text)
		}
		_ = log.Close() // nothing of it is needed
	})
	return cmd
}

// server runs a server until the end of the test.
func server(t *testing.T) {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "mcpscope"), "run", "--name", name, "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; cat")
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	until(t, "the server runs", func() bool {
		ls := listed(t)
		return ls != nil && ls.CPU > 0 && ls.Processes == 2
	})
}

// name is of a server, with what a label has to quote.
const name = `ser"ver\ of {mine}`

// figures are what ls says.
type figures struct {
	ID        string  `json:"id"`
	Processes int     `json:"processes"`
	CPU       float64 `json:"cpu_seconds"`
}

func listed(t *testing.T) *figures {
	t.Helper()
	out, err := exec.Command(filepath.Join(programs, "mcpscope"), "ls", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Servers []figures }
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Servers) != 1 {
		return nil
	}
	return &all.Servers[0]
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * escape.Patience); !is(); escape.PollFor(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not: %s", what)
		}
	}
}

func get(address string) string {
	answer, err := http.Get(address) //nolint
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body) // half an answer is none that is wanted
	return string(text)
}

// Prometheus scrapes --listen: types, helps and values are what mcpscope says.
func TestPrometheusScrapes(t *testing.T) {
	program := find(t, "prometheus")
	if !inside(t) {
		return
	}
	server(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: mcpscope, static_configs: [{targets: ['127.0.0.1:9500']}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, filepath.Join(programs, "mcpscope"), "metrics", "--listen", "9500")
	start(t, program, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:9090")
	query := func(q string) (labels map[string]string, value float64) {
		var got struct {
			Data struct {
				Result []struct {
					Metric map[string]string
					Value  [2]any
				}
			}
		}
		_ = json.Unmarshal([]byte(get("http://127.0.0.1:9090/api/v1/query?query="+url.QueryEscape(q))), &got) // not yet, then
		if len(got.Data.Result) != 1 {
			return nil, 0
		}
		r := got.Data.Result[0]
		value, _ = strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64) // as above
		return r.Metric, value
	}
	until(t, "it is scraped", func() bool { labels, up := query("up"); return labels != nil && up == 1 })
	ls := listed(t)
	until(t, "the number of processes is there", func() bool {
		labels, n := query("mcpscope_server_processes")
		return n == float64(ls.Processes) && labels["name"] == name && labels["id"] == ls.ID
	})
	if _, n := query(`mcpscope_servers{state="running"}`); n != 1 {
		t.Errorf("%v servers run", n)
	}
	if _, cpu := query("mcpscope_server_cpu_seconds_total"); cpu <= 0 || cpu > listed(t).CPU {
		t.Errorf("CPU %v, of %v", cpu, listed(t).CPU)
	}
	var metadata struct {
		Data map[string][]struct{ Type, Help, Unit string }
	}
	if err := json.Unmarshal([]byte(get("http://127.0.0.1:9090/api/v1/metadata")), &metadata); err != nil {
		t.Fatal(err)
	}
	for metric, want := range map[string][3]string{
		"mcpscope_server_cpu_seconds":        {"counter", "CPU that the server has used.", "seconds"},
		"mcpscope_server_processes":          {"gauge", "Processes of the server.", ""},
		"mcpscope_servers":                   {"gauge", "Servers, by state.", ""},
		"mcpscope_server_start_time_seconds": {"gauge", "When the server was started, since the epoch.", "seconds"},
	} {
		if got := metadata.Data[metric]; len(got) != 1 || [3]string{got[0].Type, got[0].Help, got[0].Unit} != want {
			t.Errorf("%s: %+v, not %q", metric, got, want)
		}
	}
}

// node_exporter reads --textfile: types, helps and values stay.
func TestNodeExporterReads(t *testing.T) {
	program := find(t, "prometheus-node-exporter")
	if !inside(t) {
		return
	}
	server(t)
	dir := t.TempDir()
	if out, err := exec.Command(filepath.Join(programs, "mcpscope"), "metrics", "--textfile", filepath.Join(dir, "mcpscope.prom")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start(t, program, "--web.listen-address=127.0.0.1:9100", "--collector.disable-defaults", "--collector.textfile", "--collector.textfile.directory="+dir)
	var text string
	until(t, "it answers", func() bool {
		text = get("http://127.0.0.1:9100/metrics")
		return strings.Contains(text, "mcpscope_servers")
	})
	ls := listed(t)
	labels := fmt.Sprintf("{backend=%q,client=%q,id=%q,name=%q}", "cgroup", "prometheus.test", ls.ID, name)
	for _, want := range []string{
		"# HELP mcpscope_server_cpu_seconds_total CPU that the server has used.\n# TYPE mcpscope_server_cpu_seconds_total counter\n",
		"# HELP mcpscope_server_processes Processes of the server.\n# TYPE mcpscope_server_processes gauge\nmcpscope_server_processes" + labels + " 2\n",
		`mcpscope_servers{state="running"} 1` + "\n",
		"node_textfile_scrape_error 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "untyped") {
		t.Errorf("something has no type:\n%s", text)
	}
}
