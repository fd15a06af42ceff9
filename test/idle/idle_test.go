// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package idle measures published servers that are frozen when they are idle, with each kind of swap and
// without. It makes the swap on a machine without swap. NODE_MODULES names the directory with the packages of
// package.json. chromium(1) has to be installed. In the virtual machine of test/vm/idle, which has no Go,
// MCPSCOPE names the program; there it fails if a server keeps more than the bound.
package idle

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

const (
	after    = 2 * time.Second // --idle-freeze
	waits    = 3 * time.Minute // for the freeze, on a busy machine
	calls    = 3
	watchFor = 10 * time.Second

	ratioMost = 10.0 // percent; with swap and memory.reclaim
	firstMost = 250 * time.Millisecond
)

var mcpscope string

func TestMain(m *testing.M) {
	flag.Parse()
	mcpscope = os.Getenv("MCPSCOPE")                                      // in a machine without Go
	if mcpscope != "" || flag.Lookup("test.bench").Value.String() == "" { // no test
		os.Exit(m.Run())
	}
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		mcpscope = filepath.Join(dir, "mcpscope")
		return nil
	}))
}

// published are nine servers. One with an open browser is never frozen: that holds locks.
func published(modules string) []program {
	of := func(path string, args ...string) []string {
		return append([]string{"node", filepath.Join(modules, path)}, args...)
	}
	chromium := []string{"--headless", "--no-sandbox", "--isolated", "--executable-path", "/usr/bin/chromium"}
	everything := of("@modelcontextprotocol/server-everything/dist/index.js")
	return []program{
		{"everything", everything},
		{"everything (2nd)", everything},
		{"filesystem", of("@modelcontextprotocol/server-filesystem/dist/index.js", "/tmp")},
		{"memory", of("@modelcontextprotocol/server-memory/dist/index.js")},
		{"sequential-thinking", of("@modelcontextprotocol/server-sequential-thinking/dist/index.js")},
		{"context7", of("@upstash/context7-mcp/dist/index.js")},
		{"chrome-devtools", of("chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js", "--headless", "--isolated",
			"--executablePath", "/usr/bin/chromium", "--chromeArg=--no-sandbox")},
		{"playwright", of("@playwright/mcp/cli.js", chromium...)},
		{"Python (echo)", []string{"python3", "-c", python}},
	}
}

// python stands in for packages of PyPI: a server of the standard library alone.
const python = `
import json, sys, asyncio, http.client, ssl, logging, uuid, email
for line in sys.stdin:
    m = json.loads(line)
    if "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}] * 8}}), flush=True)
`

type program struct {
	name string
	argv []string
}

// BenchmarkIdle prints a table for each kind of swap.
func BenchmarkIdle(b *testing.B) {
	modules := os.Getenv("NODE_MODULES")
	if modules == "" {
		b.Skip("SKIP: NODE_MODULES names no directory")
	}
	inMachine := os.Getenv("MCPSCOPE") != ""
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("load %s", load)
	for _, kind := range swaps {
		if inMachine && kind.name != "a file" {
			continue // its kernel has no zram
		}
		off, err := kind.on()
		if err != nil {
			fmt.Printf("\nSKIP swap %q: %v\n", kind.name, err)
			continue
		}
		fmt.Printf("\n### Swap: %s\n\n| server | processes | PSS | PSS idle | of files | ratio | first answer | second | ping | wake-ups in 10 s |\n|---|---|---|---|---|---|---|---|---|---|\n", kind.name)
		var all []*server
		var large, late []string
		for _, p := range published(modules) {
			s, err := start(p)
			if err != nil {
				fmt.Printf("| %s | %v |\n", p.name, err)
				large = append(large, p.name)
				continue
			}
			go s.keepAwake()
			all = append(all, s)
		}
		for _, s := range all {
			s.before, _, s.processes = s.pss()
		}
		for _, s := range all {
			s.awake <- struct{}{}
		}
		for _, s := range all {
			ratio, first := s.measure()
			if !(ratio <= ratioMost) { // NaN: it has ended
				large = append(large, s.name)
			}
			if first > firstMost {
				late = append(late, s.name)
			}
		}
		fmt.Printf("\nIdle over %.0f %%: %s. First answer over %v: %s.\n", ratioMost, names(large), firstMost, names(late))
		if inMachine && large != nil {
			b.Errorf("the memory of %s is over the bound", names(large))
		}
		for _, s := range all {
			s.end()
		}
		off()
	}
	b.ReportMetric(0, "ns/op") // the duration says nothing
}

// A swap is made for the benchmark, and removed.
type swap struct{ name, script, undo string }

var swaps = []swap{
	{"zram (lz4)", `cd /sys/block/zram0 && echo lz4 >comp_algorithm && echo 4G >disksize && mkswap -q /dev/zram0 >/dev/null && swapon /dev/zram0`,
		`swapoff /dev/zram0; echo 1 >/sys/block/zram0/reset`},
	{"a file", `f=/var/tmp/mcpscope-bench.swap; rm -f $f; dd if=/dev/zero of=$f bs=1M count=2048 status=none && chmod 600 $f && mkswap $f >/dev/null && swapon $f`,
		`swapoff /var/tmp/mcpscope-bench.swap; rm -f /var/tmp/mcpscope-bench.swap`},
	{"none", "", ""},
}

// on leaves a machine alone that has swap.
func (s swap) on() (off func(), err error) {
	if text, _ := os.ReadFile("/proc/swaps"); strings.Count(string(text), "\n") > 1 {
		return nil, fmt.Errorf("the machine has swap: %s", text)
	}
	if s.script == "" {
		return func() {}, nil
	}
	sh := func(script string) error {
		if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := sh(s.script); err != nil {
		return nil, err
	}
	return func() { _ = sh(s.undo) }, nil
}

type server struct {
	program
	cmd      *exec.Cmd
	in       *os.File
	out      *bufio.Reader
	group    string
	launcher int
	id       int

	awake     chan struct{} // ends keepAwake
	before    float64       // PSS while all servers are awake
	processes int
}

func start(p program) (*server, error) {
	s := &server{program: p, awake: make(chan struct{})}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(p.name))
	s.cmd = exec.Command(mcpscope, append([]string{"run", "--backend", "cgroup", "--name", name, "--idle-freeze", after.String(), "--"}, p.argv...)...)
	s.cmd.Dir = os.TempDir() // playwright writes there
	theirs, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stdin = theirs
	s.in = in
	s.out = bufio.NewReaderSize(out, 1<<20)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	theirs.Close()
	s.launcher = s.cmd.Process.Pid
	s.call("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}})
	fmt.Fprintln(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.call("tools/list", nil)
	return s, s.find(name)
}

func (s *server) find(name string) error {
	text, err := exec.Command(mcpscope, "ls", "--json").Output()
	if err != nil {
		return fmt.Errorf("ls: %w", err)
	}
	var list struct {
		Servers []struct{ Name, Group string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("ls: %w", err)
	}
	for _, listed := range list.Servers {
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			at := filepath.Join(root, listed.Group)
			if _, err := os.Stat(at); listed.Name == name && err == nil {
				s.group = escape.Payload(at)
			}
		}
	}
	if s.group == "" {
		return fmt.Errorf("ls: no %s with a group: %s", name, text)
	}
	return nil
}

// call returns the time to the answer.
func (s *server) call(method string, params any) time.Duration {
	s.id++
	text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.id, "method": method, "params": params}) // it can
	if params == nil {
		text, _ = json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.id, "method": method})
	}
	begin := time.Now()
	fmt.Fprintf(s.in, "%s\n", text)
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			panic(fmt.Sprintf("%s: %v", s.name, err))
		}
		var m struct {
			ID     any
			Method string
			Result json.RawMessage
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method != "" && m.ID != nil {
			fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%v,"result":{"roots":[]}}`+"\n", m.ID)
		}
		if bytes.Contains(m.Result, []byte(`"isError":true`)) {
			panic(fmt.Sprintf("%s: %s", s.name, line))
		}
		if m.Method == "" && fmt.Sprint(m.ID) == fmt.Sprint(s.id) {
			return time.Since(begin)
		}
	}
}

// rest waits until the server is frozen and, as a rule, reclaimed.
func (s *server) rest() error {
	if err := s.awaitFrozen(); err != nil {
		return err
	}
	for before := -1.0; ; { // until the figure stays, and the launcher sleeps
		now, _, _ := s.pss()
		now += float64(s.switches())
		if before == now {
			return nil
		}
		before = now
		time.Sleep(300 * time.Millisecond)
	}
}

// awaitFrozen asks the kernel: a call that meets a breath is no wake.
func (s *server) awaitFrozen() error {
	for begin := time.Now(); time.Since(begin) < waits; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(s.group, "cgroup.events"))
		if strings.Contains(string(text), "frozen 1") {
			return nil
		}
	}
	return fmt.Errorf("not frozen in %v", waits)
}

// wake is a call to a frozen server.
func (s *server) wake(method string) (time.Duration, error) {
	if err := s.rest(); err != nil {
		return 0, err
	}
	return s.call(method, nil), nil
}

// keepAwake pings the server.
func (s *server) keepAwake() {
	for {
		select {
		case <-s.awake:
			return
		case <-time.After(after / 4):
			s.call("tools/list", nil)
		}
	}
}

// measure returns what the bounds are for. A server that is never frozen keeps everything.
func (s *server) measure() (ratio float64, worst time.Duration) {
	before := s.before
	n := s.processes
	if err := s.rest(); err != nil {
		note := make([]byte, 1024)
		size, _ := unix.Getxattr(s.group, "user.mcpscope.notes", note)
		fmt.Printf("| %s | %d | %.0f MB | not frozen: %s |\n", s.name, n, before, note[:max(size, 0)])
		return 100, 0
	}
	idle, files, _ := s.pss()
	woken := s.switches()
	time.Sleep(watchFor)
	woken = s.switches() - woken
	var first, second, ping []time.Duration
	for range calls {
		one, err := s.wake("tools/list")
		if err != nil {
			fmt.Printf("| %s | %v |\n", s.name, err)
			return 100, 0
		}
		first = append(first, one)
		second = append(second, s.call("tools/list", nil))
	}
	_, _ = s.wake("ping")
	for range calls { // frozen, and not reclaimed again
		if s.awaitFrozen() == nil {
			ping = append(ping, s.call("ping", nil))
		}
	}
	fmt.Printf("| %s | %d | %.0f MB | %.1f MB | %.1f MB | %.0f %% | %s | %s | %s | %d |\n", s.name, n, before, idle, files, 100*idle/before, spread(first), spread(second), spread(ping), woken)
	return 100 * idle / before, slices.Max(first)
}

func names(all []string) string { return cmp.Or(strings.Join(all, ", "), "none") }

func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	return fmt.Sprintf("%d to %d ms", all[0].Milliseconds(), all[len(all)-1].Milliseconds())
}

// pss is the sum over all members, in MB; files are the part that is a file's.
func (s *server) pss() (mb, files float64, processes int) {
	_ = filepath.WalkDir(s.group, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		pids, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, pid := range strings.Fields(string(pids)) {
			text, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup")
			mb += keyed(text, "\nPss:") / 1024
			files += keyed(text, "\nPss_File:") / 1024
			processes++
		}
		return nil
	})
	return mb, files, processes
}

// switches are those of the launcher's threads.
func (s *server) switches() (n int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.launcher))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		n += int(keyed(text, "\nvoluntary_ctxt_switches:"))
	}
	return n
}

func keyed(text []byte, key string) (n float64) {
	_, rest, _ := strings.Cut(string(text), key)
	_, _ = fmt.Sscan(rest, &n) // 0: the process has ended
	return n
}

func (s *server) end() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}
