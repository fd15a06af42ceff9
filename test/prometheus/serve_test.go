// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/pace"
)

// find returns a program of Debian's package of Prometheus.
func find(tb testing.TB, name string) string {
	tb.Helper()
	if program, err := exec.LookPath(name); err == nil {
		return program
	}
	program := "../../.cache/prometheus/usr/bin/" + name
	if _, err := os.Stat(program); err != nil {
		tb.Skipf("no %s: .ci/deps extra unpacks it", name)
	}
	return program
}

// A prometheus is a running one, with its data in a directory of the test.
type prometheus struct {
	tb      testing.TB
	address string
	cmd     *exec.Cmd
}

// startPrometheus returns when it is ready. The configuration's rules are the files that we ship, with a
// change to their text.
func startPrometheus(tb testing.TB, configuration string, change func(rules string) string) *prometheus {
	tb.Helper()
	program := find(tb, "prometheus")
	dir := tb.TempDir()
	for _, name := range []string{"alerts.yml", "rules.yml"} {
		text, err := os.ReadFile(files + name)
		if err != nil {
			tb.Fatal(err)
		}
		write(tb, filepath.Join(dir, name), change(string(text)))
	}
	config := filepath.Join(dir, "prometheus.yml")
	write(tb, config, configuration)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &prometheus{tb: tb, address: listener.Addr().String()}
	listener.Close() // for Prometheus
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"),
		"--web.listen-address="+p.address, "--log.level=warn")
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill() // its data goes with it
		_ = p.cmd.Wait()
		if text, _ := os.ReadFile(log.Name()); tb.Failed() {
			tb.Logf("Prometheus: %s", text)
		}
	})
	p.await("an answer", func() bool {
		answer, err := http.Get("http://" + p.address + "/-/ready")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return p
}

func write(tb testing.TB, file, text string) {
	tb.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func (p *prometheus) await(what string, isDone func() bool) {
	p.tb.Helper()
	for deadline := pace.Now().Add(patience); !isDone(); time.Sleep(between) {
		if pace.Until(deadline) <= 0 {
			p.tb.Fatalf("Prometheus never had %s", what)
		}
	}
}

const (
	patience = 5 * time.Minute        // on the clock of pace
	between  = 200 * time.Millisecond // Prometheus and the hosts need the processor more
)

// ask decodes the data of an answer of the API.
func (p *prometheus) ask(path string, data any) {
	p.tb.Helper()
	answer, err := http.Get("http://" + p.address + "/api/v1/" + path)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer answer.Body.Close()
	var said struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
		p.tb.Fatal(err)
	}
	if said.Status != "success" {
		p.tb.Fatalf("%s: %s", path, said.Error)
	}
	if err := json.Unmarshal(said.Data, data); err != nil {
		p.tb.Fatal(err)
	}
}

// A sample is one of a vector.
type sample struct {
	Metric map[string]string
	Value  [2]any // the time, and the number as text
}

func (s sample) number(tb testing.TB) float64 {
	tb.Helper()
	n, err := strconv.ParseFloat(fmt.Sprint(s.Value[1]), 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func (p *prometheus) query(expression string) []sample {
	p.tb.Helper()
	var data struct{ Result []sample }
	p.ask("query?query="+url.QueryEscape(expression), &data)
	return data.Result
}

// number is the only sample of a query; 0 without one.
func (p *prometheus) number(expression string) float64 {
	p.tb.Helper()
	samples := p.query(expression)
	switch len(samples) {
	case 0:
		return 0
	case 1:
		return samples[0].number(p.tb)
	}
	p.tb.Fatalf("%s: %d samples", expression, len(samples))
	return 0
}

// residentMemory is in bytes.
func (p *prometheus) residentMemory() float64 {
	p.tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		p.tb.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		p.tb.Fatal(err)
	}
	return float64(pages * os.Getpagesize())
}
