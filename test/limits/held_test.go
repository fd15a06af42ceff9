// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// flags are a limit for each file, and the content of the file.
var flags = []struct{ flag, value, file, content, controller string }{
	{"--memory-max", "64M", "memory.max", "67108864", "memory"},
	{"--set", "memory.high=48M", "memory.high", "50331648", "memory"},
	{"--set", "memory.swap.max=0", "memory.swap.max", "0", "memory"},
	{"--set", "memory.low=1M", "memory.low", "1048576", "memory"},
	{"--pids-max", "50", "pids.max", "50", "pids"},
	{"--cpu-max", "150%", "cpu.max", "150000 100000", "cpu"},
	{"--set", "cpu.weight=50", "cpu.weight", "50", "cpu"},
	{"--set", "io.weight=70", "io.weight", "default 70", "io"},
}

// Every limit is in its file when the main process runs its first instruction, and is the payload's. Commands
// show it.
func TestLimitsHold(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		var given, want []string
		script := group
		add := func(file, content string) {
			want = append(want, file+" "+content)
			script += "echo " + file + " $(cat $g/" + file + "); "
		}
		for _, f := range flags {
			if b.has(f.controller) && f.file != "pids.max" {
				given = append(given, f.flag, f.value)
				add(f.file, f.content)
			}
		}
		given = append(given, "--pids-max", "50", "--set", "memory.min=4K; pids.max=60") // the last one counts
		add("pids.max", "60")
		add("memory.min", "4096")
		add("memory.oom.group", "1")
		name := "held-" + b.name
		s := b.start(t, name, given, script+"read -r line")
		for _, line := range want {
			s.Hear(line)
		}
		for command, want := range map[string][]string{
			"inspect " + name:        {"memory", "memory parts", " anonymous, ", " sh"},
			"inspect --json " + name: {`"memory.max": "67108864"`, `"pids.max": "60"`, `"anonymous_bytes": `},
			"ls --json":              {`"memory.max": "67108864"`, `"pids.max": "60"`},
			"ls":                     {"/64M"},
			"metrics": {"mcpscope_server_memory_limit_bytes{", "} 6.7108864e+07\n",
				"mcpscope_server_processes_limit{"},
		} {
			escape.Contains(t, b.succeed(t, strings.Fields(command)...), want...)
		}
		s.end()
		r := s.told()
		if r.Limits["memory.max"] != "67108864" || r.Limits["pids.max"] != "60" ||
			r.OOMKills > 0 || r.PIDsRefused > 0 {
			t.Errorf("%+v", r)
		}
	}, "memory", "pids")
}

// A server that needs no Go runtime to start has the same limits, from its first instruction on, and commands
// show them. Out of memory the whole server is killed.
func TestLimitsOfAPlainServer(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		if b.name != "cgroup" { // a manager waits for main
			t.Skip("the server is not plain")
		}
		const script = "grep -c MCPSCOPE_PLAN /proc/$PPID/environ; " + group +
			`cd $g; echo $(cat memory.max memory.high memory.swap.max pids.max cpu.max io.weight memory.oom.group)
			read -r line; sleep infinity & tail /dev/zero; echo left`
		words := []string{
			"run", "--name=plain", "--backend=cgroup", "--memory-max", "20M", "--cpu-max=150%", "--pids-max", "50",
			"--set=memory.high=16M;io.weight=70", "--set", "memory.swap.max=0", "--", "sh", "-c", script,
		}
		cmd := b.command(t, words...)
		s := escape.StartTalk(t, cmd, cmd.Start)
		s.Hear("0")
		s.Hear("20971520 16777216 0 50 150000 100000 default 70 1")
		escape.Contains(t, b.succeed(t, "inspect", "--json", "plain"),
			`"memory.max": "20971520"`, `"pids.max": "50"`, `"io.weight": "default 70"`)
		escape.Contains(t, b.succeed(t, "set", "plain", "memory.high=max"), "was 16777216")
		s.Tell("eat")
		_ = s.Wait() // how, is in the state
		if status := s.Cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGKILL {
			t.Errorf("it ended with %v; stderr: %s", status, s.Said())
		}
		escape.WantNoServers(t, "/sys/fs/cgroup/mcp.slice/0", "plain", escape.Patience)
	}, "memory", "pids")
}

// When memory runs out the kernel kills the whole payload, and the report has the limit and the peak.
func TestOutOfMemory(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "greedy-" + b.name
		s := b.start(t, name, []string{"--memory-max", "20M", "--set", "memory.swap.max=0"},
			`setsid sleep infinity & echo $!; read -r line; tail /dev/zero; echo left`)
		pid, err := strconv.Atoi(s.Line())
		if err != nil {
			t.Fatal(err)
		}
		member, err := escape.OpenProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer member.Close()
		s.Tell("eat")
		if status := s.wait(); status.Signal() != unix.SIGKILL {
			t.Errorf("it ended with %v", status)
		}
		if !member.Ended(0) {
			t.Error("the other member is left")
		}
		r := s.told()
		if r.Name != name || r.Backend != b.name || r.Cause != "out-of-memory" ||
			r.ExitSignal != "SIGKILL" || r.OOMKills < 1 || r.MemoryMax != 20<<20 {
			t.Errorf("%+v", r)
		}
		if r.MemoryPeak < 15<<20 || r.MemoryPeak > 30<<20 { // a process that is being killed may go beyond the limit
			t.Fatalf("%+v", r)
		}
	}, "memory")
}

// A limit of all that a user runs holds for the user's servers. The kernel kills the one that takes too much, and all of
// it is gone. The user's other servers go on, and so do root's.
func TestUserSliceOutOfMemory(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		if b.user.UID == 0 {
			return // there is one such backend at least, as the guide needs a manager of the user
		}
		slice := fmt.Sprintf("user-%d.slice", b.user.UID)
		limit := func(most string) {
			t.Helper()
			set := []string{"systemctl", "set-property", "--runtime", slice, "MemoryMax=" + most, "MemorySwapMax=0"}
			if out, err := host.Current(t).Command(host.Root, set...).CombinedOutput(); err != nil {
				t.Fatalf("%q: %v: %s", set, err, out)
			}
		}
		limit("150M")
		defer limit("infinity")
		const calm = `echo up; read -r line; echo still here`
		same := b.start(t, "calm", nil, calm)
		same.Line()
		roots := backend{name: "systemd-system", user: host.Root}.start(t, "calm", nil, calm)
		roots.Line()
		greedy := b.start(t, "greedy", nil, `setsid sleep infinity & echo $!; read -r line; tail /dev/zero; echo left`)
		pid, err := strconv.Atoi(greedy.Line())
		if err != nil {
			t.Fatal(err)
		}
		member, err := escape.OpenProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer member.Close()
		greedy.Tell("eat")
		greedy.wait()
		if !member.Ended(0) {
			t.Error("the other member is left")
		}
		if r := greedy.told(); r.OOMKills < 1 {
			t.Errorf("the report does not tell of the kill: %+v", r)
		}
		for _, s := range []*server{same, roots} {
			s.Tell("go on")
			if line := s.Line(); line != "still here" {
				t.Errorf("a server beside it says %q", line)
			}
			s.end()
		}
	}, "memory")
}

// A server of a gateway has no guard in its scope, so a manager removes that as soon as the kernel has killed all of it.
// Its limit is told nevertheless.
func TestServerOfAGatewayOutOfMemory(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		if !journaled() {
			t.Skip("only a journal has the end of a gateway's server")
		}
		greedy := filepath.Join(host.Directory(t, b.user), "greedy-"+b.name)
		tail, err := exec.LookPath("tail")
		if err = errors.Join(err, os.Symlink(tail, greedy)); err != nil {
			t.Fatal(err)
		}
		const servers = 4 // one after the other: the manager may be as fast as mcpscope for one of them
		const gateway = `for i in $(seq $1); do : | "$0" /dev/zero | cat >/dev/null; done`
		said, err := b.command(t, "gateway", "--backend", b.name, "--match", greedy+" *", "--memory-max", "20M",
			"--set", "memory.swap.max=0", "--", "bash", "-c", gateway, greedy, strconv.Itoa(servers)).CombinedOutput()
		if err != nil {
			t.Logf("the gateway: %v, %s", err, said) // with the status of the server
		}
		end := []string{"journalctl", "--output=cat", "MCPSCOPE_EVENT=ended", "MCPSCOPE_NAME=" + filepath.Base(greedy)}
		var sentences string
		if !pace.Eventually(escape.Patience, func() bool {
			out, _ := host.Current(t).Command(host.Root, end...).Output()
			sentences = string(out)
			return strings.Count(sentences, "\n") == servers
		}) {
			t.Errorf("%d servers have ended", servers)
		}
		if strings.Count(sentences, "out of memory (its limit is 20 MB") != servers {
			t.Errorf("the journal has\n%s", sentences)
		}
	}, "memory")
}

// A server that needs more processes than it may have gets an error, and the report has the number of
// refusals.
func TestForksAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "forks-" + b.name
		s := b.start(t, name, []string{"--pids-max", "5"},
			`for i in 1 2 3 4 5 6; do sleep infinity & done; echo all`)
		if status := s.wait(); status == 0 {
			t.Error("it could fork")
		}
		if r := s.told(); r.PIDsRefused < 1 || r.PIDsMax != 5 || r.Limits["pids.max"] != "5" {
			t.Errorf("%+v", r)
		}
	}, "pids")
}

// mcpscope set prints what the server finds then.
func TestSet(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "set-" + b.name
		s := b.start(t, name, nil, group+`echo ready; while read -r file; do echo $(cat $g/$file); done`)
		s.Hear("ready")
		sets := func(want string, limits ...string) {
			t.Helper()
			escape.Contains(t, b.succeed(t, append([]string{"set", name}, limits...)...), "): "+want+"\n")
		}
		sets("memory.max=104857600, was max", "memory.max=100M", "pids.max=30")
		sets("memory.max=52428800, was 104857600", "memory.max=50M")
		for _, f := range [][2]string{{"memory.max", "52428800"}, {"pids.max", "30"},
			{"memory.oom.group", "1"}} {
			s.Tell(f[0])
			s.Hear(f[1])
		}
		escape.Contains(t, b.succeed(t, "inspect", name), "memory.max=52428800")
		sets("pids.max=max, was 30", "pids.max=max")
		s.end()
	}, "memory", "pids")
}

// A limit that the kernel refuses changes nothing: out of memory, one member of the server would be killed as before.
func TestRefusedLimitChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "unchanged-" + b.name
		s := b.start(t, name, nil, group+`echo ready; while read -r file; do echo $(cat $g/$file); done`)
		s.Hear("ready")
		ofWhole := func(want string) {
			t.Helper()
			s.Tell("memory.oom.group")
			s.Hear(want)
		}
		refused := func() {
			t.Helper()
			out, _, status := b.result(t, "set", name, "memory.nope=5")
			if status != 1 || out != "" {
				t.Errorf("a limit that no kernel has: status %d, %q", status, out)
			}
		}
		refused()
		ofWhole("0")
		b.succeed(t, "set", name, "memory.max=100M")
		ofWhole("1")
		refused()
		ofWhole("1")
		s.end()
	}, "memory")
}

// hungry takes 20 MB and prints what its group has.
const hungry = group + `v=$(head -c 20000000 /dev/zero | tr '\0' x); echo $(cat $g/memory.current 2>/dev/null || echo ready); read -r line`

// The memory of a server without limits is counted from its start: it is that of its group, and a limit
// applies to memory that was allocated before.
func TestMemoryIsSeen(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "seen-" + b.name
		s := b.start(t, name, nil, hungry)
		own, err := strconv.ParseUint(s.Line(), 10, 64)
		if err != nil || own < 20e6 {
			t.Fatalf("it has %d bytes, %v", own, err)
		}
		v := b.listed(t, name)
		if v.Source != "group" || v.Memory < 20e6 || v.Memory > 2*own || len(v.Limits) > 0 {
			t.Errorf("ls --json: %+v, and it has %d bytes", v, own)
		}
		escape.Contains(t, b.succeed(t, "metrics"), `source="group"`)
		escape.Contains(t, b.succeed(t, "set", name, "memory.max=1M"),
			"memory.max=1048576, was max; with that the server has ended\n")
		if status := s.wait(); status.Signal() != unix.SIGKILL {
			t.Errorf("it ended with %v", status)
		}
		if r := s.told(); r.Cause != "out-of-memory" || r.OOMKills < 1 {
			t.Errorf("%+v", r)
		}
	}, "memory")
}

// Where its memory is not counted a server shows the sum of its processes, and a limit without effect is
// refused.
func TestMemoryIsNotCounted(t *testing.T) {
	for _, b := range backends() {
		if b.has("memory") || b.name == "cgroup" && b.prepare != nil {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			if b.name == "cgroup" {
				withhold(t)
			}
			name := "uncounted-" + b.name
			s := b.start(t, name, nil, hungry)
			s.Line()
			if v := b.listed(t, name); v.Memory < 20e6 || v.Memory > 60e6 || v.Source != "members" &&
				v.Source != "scope" {
				t.Errorf("ls --json: %+v", v)
			}
			out, stderr, status := b.result(t, "set", name, "memory.max=1M")
			if status != 1 || out != "" || !strings.HasPrefix(stderr, "mcpscope: cannot set "+name) ||
				!strings.Contains(stderr, "mcpscope: hint: ") {
				t.Errorf("set: status %d, %q, %q", status, out, stderr)
			}
			s.end()
		})
	}
}

// A listed server is a part of an entry of ls --json.
type listed struct {
	Name   string
	Memory uint64 `json:"memory_bytes"`
	Source string `json:"memory_source"`
	Limits map[string]string
}

func (b backend) listed(t *testing.T, name string) listed {
	t.Helper()
	var all struct{ Servers []listed }
	if err := json.Unmarshal([]byte(b.succeed(t, "ls", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all.Servers {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("there is no %s", name)
	return listed{}
}
