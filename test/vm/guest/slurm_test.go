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

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

var (
	//go:embed testdata/slurm/start
	startScript string
	//go:embed testdata/slurm/agent
	agentScript string
)

// hiders are the servers of testdata/slurm/agent: the first ends with its mark and 1, and so on.
var hiders = []string{"setsid", "double fork", "ignored signals"}

// A jobCell is an agent with three servers in a job, and the end of one of them.
type jobCell struct {
	start, end string
	backend    string
	front      string // of the agent, or of each server: gateway or run
	user       host.User
}

var jobCells = []jobCell{
	{"sbatch", "scancel", "tree", "run", host.Root},
	{"sbatch", "script ends", "tree", "gateway", host.Root},
	{"sbatch", "script ends", "tree", "run", host.Tester},
	{"sbatch", "script ends", "delegated", "gateway", host.Tester},
	{"sbatch", "scancel", "tree", "gateway", host.Tester},
	{"sbatch", "scancel", "delegated", "run", host.Tester},
	{"sbatch", "time limit", "tree", "run", host.Tester},
	{"sbatch", "time limit", "delegated", "gateway", host.Tester},
	{"sbatch", "out of memory", "tree", "run", host.Tester},
	{"sbatch", "out of memory", "delegated", "run", host.Tester},
	{"sbatch", "agent killed", "tree", "gateway", host.Tester},
	{"sbatch", "agent killed", "delegated", "run", host.Tester},
	{"srun --pty", "shell exits", "tree", "gateway", host.Tester},
	{"srun --pty", "terminal closes", "tree", "run", host.Tester},
	{"srun --pty", "scancel", "delegated", "gateway", host.Tester},
	{"srun --pty", "out of memory", "tree", "gateway", host.Tester},
	{"salloc", "shell exits", "tree", "run", host.Tester},
	{"salloc", "scancel", "tree", "gateway", host.Tester},
}

// Servers stay in the job of their client, below its limits, and nothing of them is left when it ends.
// Slurm delegates no cgroup. For the backend delegated the test does what a site's SPANK plugin would do.
func TestSlurmJobs(t *testing.T) {
	if !isSlurm() {
		return // there is no cluster
	}
	c := startCluster(t)
	var rows strings.Builder
	clean := 0
	registered := 0
	left := 0
	for i, cell := range jobCells {
		name := fmt.Sprintf("%s, %s, %s, %s, %s", cell.start, cell.end, cell.backend, cell.front, cell.user.Name)
		t.Run(name, func(t *testing.T) {
			j := startJob(cluster{t}, cell, 7000+i)
			j.wantMembersInside()
			j.end()
			fmt.Fprintf(&rows, "%-12s%-17s%-11s%-9s%-8s",
				cell.start, cell.end, cell.backend, cell.front, cell.user.Name)
			before := left
			for _, n := range j.countLeft() {
				fmt.Fprintf(&rows, "%17d", n)
				left += n
			}
			rows.WriteString("\n")
			registered += j.registered
			if left == before && !t.Failed() {
				clean++
			}
		})
	}
	c.awaitIdle()
	heading := fmt.Sprintf("%-57s", "processes left in a job of Slurm")
	for _, kind := range hiders {
		heading += fmt.Sprintf("%17s", kind)
	}
	total := fmt.Sprintf("%d cells, %d with nothing left, 0 exempt; %d members registered, %d left",
		len(jobCells), clean, registered, left)
	if err := escape.AppendTable("\n" + heading + "\n" + rows.String() + total + "\n"); err != nil {
		t.Error(err)
	}
}

func isSlurm() bool { return strings.HasSuffix(suite, "+slurm") }

// What mcpscope says in a job and beside one, as a user and as root.
func TestSlurmDoctor(t *testing.T) {
	if !isSlurm() {
		return // there is no cluster
	}
	c := startCluster(t)
	for _, u := range []host.User{host.Tester, host.Root} {
		d := c.doctor(u, "srun")
		if d.Backend != "tree" || d.problem("job") != "" {
			t.Errorf("%s in a job: %+v", u.Name, d)
		}
		for _, p := range d.Problems {
			if strings.Contains(p.Fix, "systemd-run") {
				t.Errorf("%s is told to leave the job: %+v", u.Name, p)
			}
		}
		where := c.sh(u, "srun --quiet "+mcpscope+" run -- cat /proc/self/cgroup </dev/null")
		if !inJob.MatchString(where) {
			t.Errorf("a server of %s is in %s", u.Name, where)
		}
		for _, backend := range []string{"cgroup", "systemd-system"} {
			err := c.command(u, "srun", mcpscope, "run", "--backend", backend, "--", "true").Run()
			if status := exitStatus(err); status != 125 {
				t.Errorf("%s, --backend %s: %v, want 125", u.Name, backend, err)
			}
		}
		err := c.command(u, "srun", mcpscope, "run", "--require", "--", "true").Run()
		if status := exitStatus(err); status != 125 {
			t.Errorf("%s, --require: %v, want 125", u.Name, err)
		}
		d = c.doctor(u, "salloc")
		if !strings.HasPrefix(d.Backend, "systemd-") || !strings.Contains(d.problem("job"), "srun --pty") {
			t.Errorf("%s beside a job: %+v", u.Name, d)
		}
	}
}

// diagnosed has the fields of doctor that matter for jobs.
type diagnosed struct {
	Backend  string
	Problems []struct{ Capability, What, Why, Fix string }
}

func (c cluster) doctor(u host.User, inFront string) (d diagnosed) {
	c.t.Helper()
	cmd := c.command(u, inFront, "--quiet", mcpscope, "doctor", "--json")
	out, err := cmd.Output() // its status is 1 where something is lacking
	if jsonErr := json.Unmarshal(out, &d); jsonErr != nil {
		c.t.Fatalf("%s %s doctor: %v, %v: %s", u.Name, inFront, err, jsonErr, out)
	}
	return d
}

// problem is the text of a problem, or "".
func (d diagnosed) problem(capability string) string {
	for _, p := range d.Problems {
		if p.Capability == capability {
			return p.What + "\n" + p.Why + "\n" + p.Fix
		}
	}
	return ""
}

// exitStatus is -1 for what did not exit.
func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	if exited, ok := err.(*exec.ExitError); ok {
		return exited.ExitCode()
	}
	return -1
}

// A server that takes more memory than its job has is killed, alone or with its step, and the node goes on.
// Until then its memory counts as the job's.
func TestSlurmMemory(t *testing.T) {
	if !isSlurm() {
		return // there is no cluster
	}
	c := startCluster(t)
	daemon := c.daemon()
	for i, flag := range []string{"--oom-kill-step=0", "--oom-kill-step=1"} {
		t.Run(flag, func(t *testing.T) {
			j := startHungry(cluster{t}, "/home/memory-"+strconv.Itoa(i), flag)
			j.tell("one 150")
			j.awaitLine("one has 150")
			j.wantCounted(150)
			ls := j.sh(host.Tester, "srun --quiet --overlap --jobid="+j.id+" "+mcpscope+" ls")
			if !strings.Contains(ls, "hungry-one") {
				t.Errorf("ls in another step of the job: %s", ls)
			}
			j.tell("one 600")
			if flag == "--oom-kill-step=0" {
				j.awaitLine("one died")
				j.sh(host.Root, "scancel "+j.id)
				j.awaitEnd(j.id)
			} else {
				j.awaitEnd(j.id)
				state := j.sh(host.Root, "scontrol show job "+j.id)
				if !strings.Contains(state, "JobState=OUT_OF_MEMORY") {
					t.Errorf("the job: %s", state)
				}
			}
			if left := leftOf(t, "hungry"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if now := j.daemon(); now != daemon {
				t.Errorf("slurmd was %s, and is %s", daemon, now)
			}
			j.awaitIdle()
		})
	}
}

// daemon is the pid of slurmd.
func (c cluster) daemon() string {
	return c.sh(host.Root, "systemctl show --property=MainPID --value slurmd")
}

// startHungry starts a job of 300 MB with an agent whose server takes memory when it is told to.
func startHungry(c cluster, dir, flag string) *job {
	c.t.Helper()
	j := &job{cluster: c, cell: jobCell{user: host.Tester}, dir: dir}
	j.makeDirectory()
	c.t.Cleanup(j.clear)
	batch := "#!/bin/sh\n" + mcpscope + " gateway --match '*hungry-*' -- " + host.Shared +
		"/hungry agent one <>go >said 2>&1\nread -r _ <end\n"
	writeFile(c.t, filepath.Join(dir, "batch"), batch, 0o755)
	j.id = c.sh(host.Tester, "cd "+dir+" && sbatch --parsable --mem=300M "+flag+" --output=batch.out batch")
	j.awaitLine("up ")
	return j
}

// wantCounted: so many MB are in Slurm's accounting of the job.
func (j *job) wantCounted(megabytes float64) {
	j.t.Helper()
	used := 0.0
	isCounted := pace.Eventually(clusterPatience, func() bool {
		used = j.memoryOf(j.id)
		return used >= megabytes
	})
	if !isCounted {
		j.t.Errorf("Slurm has counted %.0f MB of the job, want %.0f", used, megabytes)
	}
}

// memoryOf is the largest use of memory that Slurm has seen of a batch step, in MB.
func (c cluster) memoryOf(id string) float64 {
	cmd := c.command(host.Tester, "sstat", "--noheader", "--parsable2", "--format=MaxRSS", "--jobs="+id+".batch")
	out, _ := cmd.Output() // "" until Slurm has looked
	number := strings.TrimSpace(string(out))
	for unit, factor := range map[string]float64{"K": 1.0 / 1024, "M": 1, "G": 1024} {
		if digits, ok := strings.CutSuffix(number, unit); ok {
			value, _ := strconv.ParseFloat(digits, 64) // 0 for a format that is new
			return value * factor
		}
	}
	return 0
}

// The epilog of the guide ends what the crash of a job's slurmstepd has left, and removes the cgroups that
// Slurm leaves below a delegated one.
func TestSlurmEpilog(t *testing.T) {
	if !isSlurm() {
		return // there is no cluster
	}
	c := startCluster(t)
	crash := jobCell{"sbatch", "crash of slurmstepd", "tree", "run", host.Tester}
	without := startJob(c, crash, 7100)
	without.crash()
	survivors := len(without.members(""))
	without.killGroup()

	writeFile(t, "/etc/slurm/epilog", epilog(t), 0o755)
	writeFile(t, "/etc/slurm/slurm.conf", slurmConf+"Epilog=/etc/slurm/epilog\n", 0o644)
	c.sh(host.Root, "scontrol reconfigure")
	c.awaitIdle()
	with := startJob(c, crash, 7101)
	with.crash()
	left := 0
	for _, n := range with.countLeft() {
		left += n
	}
	ended := startJob(c, jobCell{"sbatch", "script ends", "delegated", "run", host.Tester}, 7102)
	ended.end()
	for _, n := range ended.countLeft() {
		left += n
	}
	directory := filepath.Join(bed.Root(t), ended.group[:strings.Index(ended.group, "/step_")])
	if !pace.Eventually(escape.Patience, func() bool {
		_, err := os.Stat(directory)
		return os.IsNotExist(err)
	}) {
		t.Errorf("left: %s", directory)
	}
	table := "\nthe epilog of the guide, after a crash of slurmstepd and with a delegated cgroup\n" +
		fmt.Sprintf("without it %d of %d processes were left after the crash\n", survivors, without.registered) +
		fmt.Sprintf("2 cells, 2 with nothing left, 0 exempt; %d members registered, %d left\n",
			with.registered+ended.registered, left)
	if err := escape.AppendTable(table); err != nil {
		t.Error(err)
	}
}

// epilog is the script in the guide.
func epilog(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../../../docs/guides/slurm.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, found := strings.Cut(string(guide), "```sh\n#!/bin/sh\n")
	script, _, isClosed := strings.Cut(script, "```\n")
	if !found || !isClosed {
		t.Fatal("the guide has no epilog")
	}
	return "#!/bin/sh\n" + script
}
