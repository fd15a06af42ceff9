// SPDX-License-Identifier: Apache-2.0

package guest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

var (
	//go:embed testdata/pods/Containerfile
	agentContainerfile string
	//go:embed testdata/pods/my-gateway
	podScript string
)

// manifests is where they are shipped.
const manifests = "../../../packaging/kubernetes"

// A podKind is a shipped manifest, perhaps with other texts than the shipped ones.
type podKind struct {
	name      string
	file      string
	container string
	changes   []string // old, new, old, new …
	servers   int      // that mcpscope lists
}

const (
	shared  = "shareProcessNamespace: true"
	private = "shareProcessNamespace: false"
)

var podKinds = []podKind{
	{"gateway.yaml", "gateway.yaml", "my-gateway-pod-gateway", nil, 3},
	{"agent.yaml", "agent.yaml", "my-agent-pod-agent", nil, 3},
	{"run is process 1", "agent.yaml", "my-agent-pod-agent",
		[]string{shared, private, "[mcpscope, gateway,", "[mcpscope, run,"}, 1},
	{"agent is process 1", "gateway.yaml", "my-gateway-pod-gateway", []string{shared, private}, 3},
}

// Nothing is left of the servers of a pod's agent, and no zombies: the pod is taken down, the agent is killed
// with its container, an agent that was started by exec is killed, or its client is.
func TestPods(t *testing.T) {
	if !strings.HasSuffix(suite, "+containers") {
		return // there is no engine
	}
	e := engine{t: t, argv: podman, user: host.Root}
	buildPodImages(e)
	var rows strings.Builder
	cells := 0
	clean := 0
	registered := 0
	left := 0
	mark := 7500
	for _, kind := range podKinds {
		t.Run(kind.name, func(t *testing.T) {
			e.t = t
			p := startPod(e, kind)
			p.wantConfined()
			for _, end := range []string{"exec: agent killed", "exec: client killed", "agent killed", "pod down"} {
				mark += 10
				if end == "pod down" && kind.file == "agent.yaml" { // a job that has ended starts nothing
					p.takeDown()
					p = startPod(e, kind)
				}
				s := p.start(end, mark)
				s.end(end)
				counts := s.countLeft()
				zombies := p.awaitZombies()
				fmt.Fprintf(&rows, "%-20s%-22s", kind.name, end)
				n := 0
				for _, count := range counts {
					fmt.Fprintf(&rows, "%17d", count)
					n += count
				}
				fmt.Fprintf(&rows, "%10d\n", zombies)
				cells++
				registered += len(s.members)
				left += n
				if n == 0 {
					clean++
				}
				if zombies > 0 {
					t.Errorf("%s: %d zombies", end, zombies)
				}
			}
		})
	}
	heading := fmt.Sprintf("%-20s%-22s", "pod", "end")
	for _, hider := range hiders {
		heading += fmt.Sprintf("%17s", hider)
	}
	total := fmt.Sprintf("%d cells, %d with nothing left, 0 exempt; %d members registered, %d left\n",
		cells, clean, registered, left)
	if err := escape.AppendTable("\n" + heading + "   zombies\n" + rows.String() + total); err != nil {
		t.Error(err)
	}
}

// The metrics of a gateway's pod and those of its node have the servers of the gateway.
func TestPodMetrics(t *testing.T) {
	if !strings.HasSuffix(suite, "+containers") {
		return // there is no engine
	}
	e := engine{t: t, argv: podman, user: host.Root}
	buildPodImages(e)
	gateway := startPod(e, podKinds[0])
	startPod(e, podKind{file: "metrics.yaml"})
	(&agentRun{pod: gateway, mark: "7500"}).awaitMembers()
	for name, command := range map[string][]string{
		"pod":  {"exec", gateway.kind.container, "wget", "-q", "-O", "-", "http://127.0.0.1:9500/metrics"},
		"node": {"exec", "mcpscope-metrics-pod-metrics", "mcpscope", "metrics"},
	} {
		var out string
		if !pace.Eventually(clusterPatience, func() bool {
			answer, _ := e.command(command...).Output() // it may still start
			out = string(answer)
			return strings.Count(out, "mcpscope_server_processes{") == len(hiders)
		}) {
			t.Errorf("the metrics of the %s have not %d servers: %s", name, len(hiders), out)
		}
	}
}

// A server that takes more memory than its pod has is killed, alone or with its container as most clusters have it, and
// nothing of it is left. Until then its memory counts as the pod's.
func TestPodMemory(t *testing.T) {
	if !strings.HasSuffix(suite, "+containers") {
		return // there is no engine
	}
	e := engine{t: t, argv: podman, user: host.Root}
	buildPodImages(e)
	for name, isGroup := range map[string]bool{"one process": false, "container": true} {
		t.Run(name, func(t *testing.T) {
			e.t = t
			p := startPod(e, podKind{file: "gateway.yaml", container: "my-gateway-pod-gateway", changes: []string{
				"limits: {memory: 2Gi} # of", "limits: {memory: 300Mi} # of",
				"[mcpscope, gateway, --, my-gateway]",
				`[sh, -c, "mkfifo /tmp/go; exec mcpscope gateway -- hungry agent one <>/tmp/go"]`,
			}})
			p.awaitLine("up ")
			dir := p.limitedGroup()
			most, err := bed.ReadInts(filepath.Join(dir, "memory.max"))
			if err != nil || most[0] != 300<<20 {
				t.Errorf("memory.max is %v, want 300 MiB: %v", most, err)
			}
			if isGroup { // as the kubelet does
				writeFile(t, filepath.Join(dir, "memory.oom.group"), "1", 0)
			}
			p.tell("one 150")
			p.awaitLine("one has 150")
			used, err := bed.ReadInts(filepath.Join(dir, "memory.current"))
			if err != nil || used[0] < 150<<20 {
				t.Errorf("the pod uses %v bytes, and its server 150 MB: %v", used, err)
			}
			agent := p.wantOne("hungry agent one")
			server := p.wantOne("hungry-one")
			p.tell("one 600")
			escape.WantEnded(t, server)
			if isGroup {
				escape.WantEnded(t, agent)
				p.awaitAgain()
				return
			}
			p.awaitLine("one died")
			if agent.Ended(0) {
				t.Error("the agent has ended with its server")
			}
			if left := processes("hungry-one"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// tell writes a line to the agent of a pod.
func (p *pod) tell(line string) {
	p.t.Helper()
	p.well("exec", p.kind.container, "sh", "-c", "echo '"+line+"' >/tmp/go")
}

// awaitLine waits until the agent has printed a line that begins so.
func (p *pod) awaitLine(prefix string) {
	p.t.Helper()
	log := ""
	if !pace.Eventually(clusterPatience, func() bool {
		out, _ := p.command("logs", p.kind.container).CombinedOutput() // it may not run yet
		log = string(out)
		return strings.Contains("\n"+log, "\n"+prefix)
	}) {
		p.t.Fatalf("no line %q; the log: %s", prefix, log)
	}
}

// limitedGroup is the cgroup that has the memory limit of the container.
func (p *pod) limitedGroup() string {
	p.t.Helper()
	path, err := bed.ProcessPath(p.first(p.kind.container))
	for ; err == nil && path != "/"; path = filepath.Dir(path) {
		dir := filepath.Join(bed.Root(p.t), path)
		text, readErr := os.ReadFile(filepath.Join(dir, "memory.max"))
		if readErr == nil && string(text) != "max\n" {
			return dir
		}
	}
	p.t.Fatalf("no cgroup above the container has a limit: %v", err)
	return ""
}

// wantOne opens the only process whose command line begins so.
func (p *pod) wantOne(text string) *escape.Process {
	p.t.Helper()
	found := processes(text)
	if len(found) != 1 {
		p.t.Fatalf("want one process, found %v", found)
	}
	for pid := range found {
		process, err := escape.OpenProcess(pid)
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(process.Close)
		return process
	}
	return nil
}

// awaitAgain waits until the engine has restarted the container, with one server.
func (p *pod) awaitAgain() {
	p.t.Helper()
	isUp := func() bool { return len(processes("hungry-one")) == 1 && len(processes("hungry agent one")) == 1 }
	if !pace.Eventually(clusterPatience, isUp) {
		p.t.Errorf("after a restart: %v, %v", processes("hungry-one"), processes("hungry agent one"))
	}
}

// buildPodImages builds the images of the manifests, by the shipped Containerfile and as the guide says. The runtime of
// most clusters has no profile of AppArmor; with one no process of a pod may signal another: see TestNoSignals.
func buildPodImages(e engine) {
	e.t.Helper()
	const profile = "/etc/apparmor.d/crun"
	for _, change := range []string{"--replace", "--remove"} { // the test before may have removed it
		if out, err := exec.Command("apparmor_parser", change, profile).CombinedOutput(); err != nil {
			e.t.Fatalf("apparmor_parser %s: %v: %s", change, err, out)
		}
	}
	built := e.t.TempDir()
	copyFile(e.t, mcpscope, filepath.Join(built, "mcpscope"))
	copyFile(e.t, mcpscope+"ctl", filepath.Join(built, "mcpscopectl"))
	e.well("build", "--quiet", "--tag", "registry.example.com/mcpscope:0.1.0",
		"--file", manifests+"/Containerfile", built)
	agent := e.t.TempDir()
	writeFile(e.t, filepath.Join(agent, "Containerfile"), agentContainerfile, 0o644)
	writeFile(e.t, filepath.Join(agent, "agent"), agentScript, 0o755)
	writeFile(e.t, filepath.Join(agent, "my-gateway"), podScript, 0o755)
	writeFile(e.t, filepath.Join(agent, "my-agent"), podScript, 0o755)
	settings := "[defaults]\nmatch = [\"*demo-server*\", \"*hungry-*\"]\n"
	writeFile(e.t, filepath.Join(agent, "mcpscope.toml"), settings, 0o644)
	bin := filepath.Join(agent, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		e.t.Fatal(err)
	}
	copyFile(e.t, "/bin/busybox", filepath.Join(bin, "busybox"))
	copyFile(e.t, host.Shared+"/hungry", filepath.Join(bin, "hungry"))
	for _, tool := range []string{"sh", "setsid", "sleep", "mkfifo", "mkdir", "rm", "mv", "tail", "wget"} {
		if err := os.Symlink("busybox", filepath.Join(bin, tool)); err != nil {
			e.t.Fatal(err)
		}
	}
	e.well("build", "--quiet", "--tag", "registry.example.com/my-gateway:1",
		"--tag", "registry.example.com/my-agent:1", agent)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, string(content), 0o755)
}

// A pod runs an agent of a shipped manifest.
type pod struct {
	engine
	kind podKind
	file string
	down bool
}

func startPod(e engine, kind podKind) *pod {
	e.t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, kind.file))
	if err != nil {
		e.t.Fatal(err)
	}
	manifest := string(text)
	for i := 0; i < len(kind.changes); i += 2 {
		old := kind.changes[i]
		if !strings.Contains(manifest, old) {
			e.t.Fatalf("%s has no %q", kind.file, old)
		}
		manifest = strings.ReplaceAll(manifest, old, kind.changes[i+1])
	}
	p := &pod{engine: e, kind: kind, file: filepath.Join(e.t.TempDir(), kind.file)}
	writeFile(e.t, p.file, manifest, 0o644)
	e.t.Cleanup(p.takeDown)
	e.well("kube", "play", "--network=none", p.file)
	return p
}

// takeDown stops and removes the pod, as kubectl delete does.
func (p *pod) takeDown() {
	if !p.down {
		p.down = true
		p.well("kube", "down", "--force", p.file)
	}
}

// wantConfined: the container has no rights and a filter, and mcpscope says what it has there.
func (p *pod) wantConfined() {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.first(p.kind.container)))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1",
		"Seccomp:\t2", "Uid:\t65532\t65532\t65532\t65532"} {
		if !strings.Contains(string(status), line+"\n") {
			p.t.Errorf("no %q of the container's first process: %s", line, status)
		}
	}
	written := p.command("exec", p.kind.container, "sh", "-c", "echo >/usr/local/bin/new")
	if out, err := written.CombinedOutput(); err == nil {
		p.t.Errorf("a file was written to the root file system: %s", out)
	}
	for _, mount := range p.mounts() {
		if mount[1] == "/" && !strings.HasPrefix(mount[3], "ro") {
			p.t.Errorf("the root file system is mounted with %s", mount[3])
		}
	}
	(&agentRun{pod: p, mark: "7500"}).awaitMembers()
	listed := 0
	if !pace.Eventually(escape.Patience, func() bool {
		listed = strings.Count(p.well("exec", p.kind.container, "mcpscope", "ls"), "running")
		return listed == p.kind.servers
	}) {
		p.t.Errorf("ls has %d servers, want %d", listed, p.kind.servers)
	}
	out, err := p.command("exec", p.kind.container, "mcpscope", "doctor", "--json").Output()
	var d diagnosed
	if jsonErr := json.Unmarshal(out, &d); jsonErr != nil || d.Backend != "tree" {
		p.t.Errorf("doctor: %v, %v, want backend tree: %s", err, jsonErr, out)
	}
}

// mounts are the lines of the mounts of the container, in fields.
func (p *pod) mounts() (lines [][]string) {
	p.t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", p.first(p.kind.container)))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// An agentRun is an agent in a pod with three servers.
type agentRun struct {
	pod     *pod
	mark    string
	members map[*escape.Process]string // by the number of the server
	client  *escape.Process            // of exec, or nil
}

// start starts the agent for an end by exec, or takes the container's own, and returns when all of its
// servers run.
func (p *pod) start(end string, mark int) *agentRun {
	p.t.Helper()
	r := &agentRun{pod: p, mark: strconv.Itoa(mark)}
	if !strings.HasPrefix(end, "exec: ") {
		r.mark = "7500" // of the manifests
	} else {
		cmd := p.command("exec", "--interactive", p.kind.container,
			"mcpscope", "run", "--", "my-gateway", r.mark)
		stdin, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			r.client, err = escape.OpenProcess(cmd.Process.Pid)
		}
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() {
			r.client.Signal(unix.SIGKILL)
			_ = stdin.Close() // a pipe
			_ = cmd.Wait()    // its status is that of the kill
			r.client.Close()
		})
	}
	r.awaitMembers()
	return r
}

// awaitMembers waits until each server has both of its processes.
func (r *agentRun) awaitMembers() {
	r.pod.t.Helper()
	const each = 2
	isUp := func() bool { return len(processes("sleep "+r.mark)) == each*len(hiders) }
	if !pace.Eventually(clusterPatience, isUp) {
		out, _ := r.pod.command("logs", r.pod.kind.container).CombinedOutput() // it says why
		r.pod.t.Fatalf("%v, want %d each of %q; the log: %s", processes("sleep "+r.mark), each, hiders, out)
	}
	r.members = map[*escape.Process]string{}
	for pid, line := range processes("sleep " + r.mark) {
		member, err := escape.OpenProcess(pid)
		if err != nil {
			r.pod.t.Fatal(err)
		}
		r.pod.t.Cleanup(member.Close)
		r.members[member] = strings.TrimPrefix(strings.Fields(line)[1], r.mark)
	}
}

// end ends what the cell says. Only a pod that is taken down does not go on.
func (r *agentRun) end(how string) {
	r.pod.t.Helper()
	switch how {
	case "exec: client killed":
		r.client.Signal(unix.SIGKILL)
	case "exec: agent killed", "agent killed":
		for pid := range processes("sh /usr/local/share/agent " + r.mark) {
			agent, err := escape.OpenProcess(pid)
			if err != nil {
				r.pod.t.Fatal(err)
			}
			agent.Signal(unix.SIGKILL)
			agent.Close()
		}
		if how == "agent killed" && r.pod.kind.file == "gateway.yaml" {
			escape.WantEnded(r.pod.t, r.anyMember())
			r.awaitRestart()
		}
	case "pod down":
		r.pod.takeDown()
	}
}

func (r *agentRun) anyMember() *escape.Process {
	for member := range r.members {
		return member
	}
	return nil
}

// awaitRestart waits for another agent, with servers of its own.
func (r *agentRun) awaitRestart() {
	r.pod.t.Helper()
	isUp := func() bool { return len(processes("sleep "+r.mark)) == len(r.members) }
	if !pace.Eventually(clusterPatience, isUp) {
		r.pod.t.Errorf("after a restart: %v", processes("sleep "+r.mark))
	}
}

// countLeft counts the processes that are left of each server, when there was time.
func (r *agentRun) countLeft() []int {
	r.pod.t.Helper()
	counts := make([]int, len(hiders))
	for member, number := range r.members {
		if member.Ended(escape.Patience) {
			continue
		}
		r.pod.t.Errorf("left: %s", escape.Describe(member.PID))
		i, _ := strconv.Atoi(number) // as the agent wrote it
		counts[i-1]++
	}
	return counts
}

// processes are the command lines that begin with a text, by pid.
func processes(text string) map[int]string {
	found := map[int]string{}
	eachProcess(func(pid int) {
		content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // "", if it has ended
		line := strings.ReplaceAll(string(content), "\x00", " ")
		if strings.HasPrefix(line, text) {
			found[pid] = line
		}
	})
	return found
}

func eachProcess(visit func(pid int)) {
	entries, _ := os.ReadDir("/proc") // it is there
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			visit(pid)
		}
	}
}

// awaitZombies counts the zombies in containers, when their parents had time to reap them.
func (p *pod) awaitZombies() (zombies int) {
	pace.Eventually(escape.Patience, func() bool {
		zombies = 0
		eachProcess(func(pid int) {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // "", if it was reaped
			_, state, _ := strings.Cut(string(stat), ") ")
			path, _ := bed.ProcessPath(pid) // as above
			if strings.HasPrefix(state, "Z") && strings.Contains(path, "libpod") {
				zombies++
			}
		})
		return zombies == 0
	})
	return zombies
}
