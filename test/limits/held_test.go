// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// flags are a limit for each file, and what the file has to say.
var flags = []struct{ flag, value, file, says, controller string }{
	{"--memory-max", "64M", "memory.max", "67108864", "memory"},
	{"--memory-high", "48.5M", "memory.high", "50855936", "memory"},
	{"--swap-max", "0", "memory.swap.max", "0", "memory"},
	{"--set", "memory.low=1M", "memory.low", "1048576", "memory"},
	{"--pids-max", "50", "pids.max", "50", "pids"},
	{"--cpu-max", "150%", "cpu.max", "150000 100000", "cpu"},
	{"--cpu-weight", "50", "cpu.weight", "50", "cpu"},
	{"--io-weight", "70", "io.weight", "default 70", "io"},
}

// Every limit is in its file when the main process runs its first instruction, and is the payload's.
func TestLimitsHold(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		var given, want []string
		script := group
		add := func(file, says string) {
			want = append(want, file+" "+says)
			script += "echo " + file + " $(cat $g/" + file + "); "
		}
		for _, f := range flags {
			if b.has(f.controller) && f.file != "pids.max" {
				given = append(given, f.flag, f.value)
				add(f.file, f.says)
			}
		}
		given = append(given, "--pids-max", "50", "--set", "memory.min=4K; pids.max=60") // what is said last counts
		add("pids.max", "60")
		add("memory.min", "4096")
		add("memory.oom.group", "1")
		add("../supervisor/memory.max", "max")
		add("../supervisor/pids.max", "max")
		script += "read -r line"
		s := b.start(t, "held-"+b.name, given, script)
		for _, line := range want {
			if got := s.Line(); got != line {
				t.Errorf("it finds %q, want %q", got, line)
			}
		}
		b.wantShown(t)
		s.end()
		r := s.told()
		if r.Limits["memory.max"] != "67108864" || r.Limits["pids.max"] != "60" || r.OutOfMemory.Kills > 0 || r.PIDsRefused.Times > 0 || len(r.Pressure) == 0 {
			t.Errorf("%+v", r)
		}
	}, "memory", "pids")
}

// wantShown looks for the limits of TestLimitsHold where operators do.
func (b backend) wantShown(t *testing.T) {
	t.Helper()
	if out := b.succeed(t, "inspect", "held-"+b.name); !strings.Contains(out, "memory of members") || !strings.Contains(out, "sh[") {
		t.Errorf("inspect says %s", out)
	}
	for _, command := range [][]string{{"inspect", "--json", "held-" + b.name}, {"ls", "--json"}} {
		out := b.succeed(t, command...)
		if !strings.Contains(out, `"memory.max": "67108864"`) || !strings.Contains(out, `"pids.max": "60"`) {
			t.Errorf("%q says %s", command, out)
		}
	}
	if out := b.succeed(t, "ls"); !strings.Contains(out, "/64M") {
		t.Errorf("ls says %s", out)
	}
	out := b.succeed(t, "metrics")
	for _, want := range []string{"mcpscope_server_memory_limit_bytes{", "} 6.7108864e+07\n", "mcpscope_server_processes_limit{", `kind="some",name="held-` + b.name + `",resource="memory"} `} {
		if !strings.Contains(out, want) {
			t.Errorf("metrics has no %q:\n%s", want, out)
		}
	}
}

// Where memory does not suffice the whole payload ends, by the kernel, and the supervisor tells.
func TestOutOfMemory(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "greedy-" + b.name
		s := b.start(t, name, []string{"--memory-max", "20M", "--swap-max", "0"}, `setsid sleep 1000 & echo $!; read -r line; tail /dev/zero; echo left`)
		pid, err := strconv.Atoi(s.Line())
		if err != nil {
			t.Fatal(err)
		}
		member, err := unix.PidfdOpen(pid, 0) // the server waits for us
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(member)
		s.Tell("eat")
		if status := s.wait(); status.Signal() != unix.SIGKILL {
			t.Errorf("it ended with %v", status)
		}
		if err := unix.PidfdSendSignal(member, 0, nil, 0); err != unix.ESRCH {
			t.Errorf("the other member is left: %v", err)
		}
		r := s.told()
		o := r.OutOfMemory
		if r.Name != name || r.Backend != b.name || r.Cause != "out-of-memory" || r.ExitSignal != "SIGKILL" || o.Kills < 1 || o.Max != 20<<20 {
			t.Errorf("%+v", r)
		}
		if o.Peak < 15<<20 || o.Peak > 20<<20 || len(o.Biggest) == 0 || o.Biggest[0].Bytes < 10<<20 {
			t.Fatalf("%+v", o)
		}
		biggest := o.Biggest[0].Name
		if biggest != "tail" && biggest != "sh" { // which may have waited for it before it was killed itself
			t.Errorf("%+v", o)
		}
		if journaled() {
			if out := b.events(t, name, "out-of-memory"); !strings.Contains(out, `"memory_max_bytes":20971520`) || !strings.Contains(out, `"biggest":["`+biggest+"[") {
				t.Errorf("events says %s", out)
			}
		}
	}, "memory")
}

// One process is killed where that is what was asked for.
func TestOneIsKilled(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "one-" + b.name
		s := b.start(t, name, []string{"--memory-max", "20M", "--swap-max", "0", "--oom-group=false"}, `echo ready; read -r line; tail /dev/zero; echo left; read -r line`)
		s.Hear("ready")
		s.Tell("eat")
		s.Hear("left")
		if out := b.succeed(t, "inspect", name); !strings.Contains(out, "the kernel killed 1") {
			t.Errorf("inspect says %s", out)
		}
		if line := lineWith(b.succeed(t, "metrics"), "oom_kills_total{"); !strings.HasSuffix(line, "} 1.0") {
			t.Errorf("metrics says %s", line)
		}
		s.end()
		if r := s.told(); r.Cause == "out-of-memory" || r.OutOfMemory.Kills != 1 {
			t.Errorf("%+v", r)
		}
	}, "memory")
}

func TestForksAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "forks-" + b.name
		s := b.start(t, name, []string{"--pids-max", "5"}, `for i in 1 2 3 4 5 6; do sleep 1000 & done; echo all`)
		if status := s.wait(); status == 0 {
			t.Error("it could fork")
		}
		if r := s.told(); r.PIDsRefused.Times < 1 || r.PIDsRefused.Max != 5 || r.Limits["pids.max"] != "5" {
			t.Errorf("%+v", r)
		}
		if journaled() {
			if out := b.events(t, name, "pids-refused"); !strings.Contains(out, `"pids_max":5`) {
				t.Errorf("events says %s", out)
			}
		}
	}, "pids")
}

// A server that would take a whole processor is held back: it looks itself for how often.
func TestProcessorIsThrottled(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		s := b.start(t, "busy-"+b.name, []string{"--cpu-max", "0.1"}, group+`while ! grep -q 'nr_throttled [1-9]' $g/cpu.stat; do :; done; echo throttled; read -r line`)
		s.Hear("throttled")
		s.end()
		if r := s.told(); r.Limits["cpu.max"] != "10000 100000" || r.Pressure["cpu"].Some <= 0 {
			t.Errorf("%+v", r)
		}
	}, "cpu")
}

// mcpscope set: what it says is what the server finds.
func TestSet(t *testing.T) {
	set := func(t *testing.T, b backend) {
		name := "set-" + b.name
		s := b.start(t, name, nil, group+`echo ready; while read -r file; do echo $(cat $g/$file); done`)
		s.Hear("ready")
		for _, scope := range b.user.Scopes(name) {
			if err := escape.AwaitScope(scope, patience); err != nil {
				t.Fatal(err)
			}
		}
		sets := func(want string, limits ...string) {
			t.Helper()
			if out := b.succeed(t, append([]string{"set", name}, limits...)...); !strings.Contains(out, "): "+want+"\n") {
				t.Errorf("set %q says %q, want %q", limits, out, want)
			}
		}
		sets("memory.max=104857600, was max", "memory.max=100M", "pids.max=30")
		sets("memory.max=52428800, was 104857600", "memory.max=50M")
		for _, f := range [][2]string{{"memory.max", "52428800"}, {"pids.max", "30"}, {"memory.oom.group", "1"}} {
			s.Tell(f[0])
			s.Hear(f[1])
		}
		if out := b.succeed(t, "inspect", name); !strings.Contains(out, "memory.max=52428800") {
			t.Errorf("inspect says %s", out)
		}
		sets("pids.max=max, was 30", "pids.max=infinity")
		for _, bad := range []string{"cgroup.procs=0", "memory.nope=1", "memory.max=x", "memory.current=1", "../memory.max=1"} {
			if out, stderr, status := b.result(t, "set", name, bad); status == 0 || out != "" || !strings.HasPrefix(stderr, "mcpscope: ") {
				t.Errorf("%s: status %d, %q, %q", bad, status, out, stderr)
			}
		}
		s.end()
	}
	onEach(t, set, "memory", "pids")
	if system := backends()[0]; system.name == "systemd-system" && system.has("memory") {
		t.Run("auto", func(t *testing.T) { set(t, backend{name: "auto", user: system.user}) })
	}
}

// A file may say the same as the flags, and a variable.
func TestConfiguredLimits(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		file := "/srv/limits-" + b.name + ".toml"
		text := "[defaults]\nmemory-max = \"30M\"\npids-max = 40\n[server.\"conf*\"]\npids-max = 41\nset = \"memory.min=1M; memory.low=2M\"\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(file) }) // it was made here
		b.wrap = []string{"env", "MCPSCOPE_CONFIG=" + file, "MCPSCOPE_MEMORY_MAX=31M"}
		s := b.start(t, "conf-"+b.name, nil, "echo ready; read -r line")
		s.Hear("ready")
		s.end()
		if r := s.told(); r.Limits["memory.max"] != "32505856" || r.Limits["pids.max"] != "41" || r.Limits["memory.min"] != "1048576" || r.Limits["memory.low"] != "2097152" {
			t.Errorf("%+v", r)
		}
	}, "memory", "pids")
}

// A client that is in a group below its unit's has servers beside it, where that hands controllers down.
func TestDelegatedSubgroup(t *testing.T) {
	if strings.HasSuffix(suite, "+init") {
		return // nobody delegates anything
	}
	onEach(t, func(t *testing.T, b backend) {
		b.name = "delegated"
		const below = group + `mkdir $g/client && echo $$ >$g/client/cgroup.procs && echo +memory >$g/cgroup.subtree_control && echo +pids >$g/cgroup.subtree_control && exec "$@"`
		b.wrap = []string{"systemd-run", "--scope", "--quiet", "--collect", "--property=Delegate=yes"}
		if b.user.UID != 0 {
			b.wrap = append([]string{"env", "XDG_RUNTIME_DIR=" + b.user.RuntimeDir()}, append(b.wrap, "--user")...)
		}
		b.wrap = append(b.wrap, "--", "sh", "-c", below, "sh")
		s := b.start(t, "beside", []string{"--memory-max", "64M", "--pids-max", "50"}, group+`echo $(cat $g/memory.max $g/pids.max); read -r line`)
		s.Hear("67108864 50")
		s.end()
		if r := s.told(); r.Backend != "delegated" || r.Limits["memory.max"] != "67108864" {
			t.Errorf("%+v", r)
		}
	}, "memory", "pids")
}

// The memory of a server without limits is counted from its start: what it says of itself is what every
// command says, and a limit holds for what it has already.
func TestMemoryIsSeen(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "seen-" + b.name
		s := b.start(t, name, nil, group+`v=$(head -c 20000000 /dev/zero | tr '\0' x); echo controllers $(cat $g/cgroup.controllers); echo $(cat $g/memory.current); read -r line`)
		s.Hear("controllers memory")
		own, err := strconv.ParseUint(s.Line(), 10, 64)
		if err != nil || own < 20e6 {
			t.Fatalf("it has %d bytes, %v", own, err)
		}
		v := b.one(t, name)
		if v.Source != "group" || v.Memory < 20e6 || v.Memory > 2*own || len(v.Limits) > 0 {
			t.Errorf("ls --json: %+v, and it has %d bytes", v, own)
		}
		if out := b.succeed(t, "ls"); strings.Contains(out, "0B") || strings.Contains(out, " -  ") || strings.Contains(out, "~") {
			t.Errorf("ls says %s", out)
		}
		if line := lineWith(b.succeed(t, "metrics"), `mcpscope_server_memory_bytes{`); !strings.Contains(line, `source="group"`) {
			t.Errorf("metrics says %s", line)
		}
		if out := b.succeed(t, "set", name, "memory.max=1M"); !strings.HasSuffix(out, "memory.max=1048576, was max; with that the server has ended\n") {
			t.Errorf("set says %s", out)
		}
		if status := s.wait(); status.Signal() != unix.SIGKILL {
			t.Errorf("it ended with %v", status)
		}
		if r := s.told(); r.Cause != "out-of-memory" || r.OutOfMemory.Kills < 1 {
			t.Errorf("%+v", r)
		}
	}, "memory")
}

// Where its memory is not counted a server shows the sum of its processes, and a limit that would hold
// for nothing is refused.
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
			s := b.start(t, name, nil, `v=$(head -c 20000000 /dev/zero | tr '\0' x); echo ready; read -r line`)
			s.Hear("ready")
			v := b.one(t, name)
			if v.Memory < 20e6 || v.Memory > 60e6 || v.Source != "members" && v.Source != "scope" {
				t.Errorf("ls --json: %+v", v)
			}
			if out := b.succeed(t, "ls"); v.Source == "members" && !strings.Contains(out, "  ~") {
				t.Errorf("ls says %s", out)
			}
			out, stderr, status := b.result(t, "set", name, "memory.max=1M")
			if status != 1 || out != "" || !strings.HasPrefix(stderr, "mcpscope: cannot limit "+name) || !strings.Contains(stderr, "mcpscope: hint: ") {
				t.Errorf("set: status %d, %q, %q", status, out, stderr)
			}
			s.end()
		})
	}
}

// seen is what TestMemoryIsSeen reads of `ls --json`.
type seen struct {
	Name   string
	Memory uint64 `json:"memory_bytes"`
	Source string `json:"memory_source"`
	Limits map[string]string
}

// one is the server of that name.
func (b backend) one(t *testing.T, name string) seen {
	t.Helper()
	var all struct{ Servers []seen }
	if err := json.Unmarshal([]byte(b.succeed(t, "ls", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all.Servers {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("there is no %s", name)
	return seen{}
}
