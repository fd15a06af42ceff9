// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A job runs the agent of a cell.
type job struct {
	cluster
	cell       jobCell
	dir        string // its working directory
	mark       string // in the command lines of all of its servers
	id         string
	group      string         // the cgroup of the agent
	terminal   io.WriteCloser // of the shell, or nil
	script     *exec.Cmd      // that has the terminal, or nil
	registered int
}

// startJob returns when all processes of all servers run.
func startJob(c cluster, cell jobCell, number int) *job {
	c.t.Helper()
	mark := strconv.Itoa(number)
	j := &job{cluster: c, cell: cell, mark: mark, dir: "/home/job-" + mark}
	j.makeDirectory()
	agent := ""
	each := mcpscope + " run --"
	if cell.front == "gateway" {
		agent = mcpscope + " gateway --match *demo-server* --"
		each = ""
	}
	line := fmt.Sprintf(`sh ./start %s "%s" -- "%s" >said 2>&1 &`, j.mark, agent, each)
	c.t.Cleanup(j.clear)
	switch cell.start {
	case "sbatch":
		batch := line + "\nread -r _ <end\n"
		writeFile(c.t, filepath.Join(j.dir, "batch"), "#!/bin/sh\n"+batch, 0o755)
		c.sh(cell.user, "cd "+j.dir+" && sbatch "+cell.limits()+" --output=batch.out batch")
	case "srun --pty":
		j.startTerminal("srun "+cell.limits()+" --pty bash --norc", line)
	case "salloc":
		j.startTerminal("salloc "+cell.limits(), line)
	}
	j.awaitStart()
	j.writeTo("go")
	j.pidIn("agent.pid")
	j.awaitMembers()
	return j
}

// limits are the flags for a job.
func (c jobCell) limits() string {
	flags := "--mem=100M"
	switch c.end {
	case "time limit":
		flags += " --time=1" // minute, the least
	case "out of memory":
		flags += " --oom-kill-step=1"
	}
	return flags
}

// makeDirectory makes the working directory with the agent and the pipes through which it is told to go on.
func (j *job) makeDirectory() {
	j.t.Helper()
	if err := os.Mkdir(j.dir, 0o755); err != nil {
		j.t.Fatal(err)
	}
	writeFile(j.t, filepath.Join(j.dir, "start"), startScript, 0o755)
	writeFile(j.t, filepath.Join(j.dir, "agent"), agentScript, 0o755)
	for _, name := range []string{"go", "hold", "end", "in-1", "in-2", "in-3", "out-1", "out-2", "out-3"} {
		err := unix.Mkfifo(filepath.Join(j.dir, name), 0o666)
		if err == nil {
			err = os.Chown(filepath.Join(j.dir, name), j.cell.user.UID, j.cell.user.UID)
		}
		if err != nil {
			j.t.Fatal(err)
		}
	}
	if err := os.Chown(j.dir, j.cell.user.UID, j.cell.user.UID); err != nil {
		j.t.Fatal(err)
	}
}

// startTerminal starts a shell of Slurm's in a terminal, and types a line.
func (j *job) startTerminal(shell, line string) {
	j.t.Helper()
	j.script = j.command(j.cell.user, "script", "--quiet", "--return", "--command", shell, "/dev/null")
	j.script.Dir = j.dir
	output, err := os.Create(filepath.Join(j.dir, "terminal"))
	if err != nil {
		j.t.Fatal(err)
	}
	defer output.Close()
	j.script.Stdout = output
	j.script.Stderr = output
	j.terminal, err = j.script.StdinPipe()
	if err == nil {
		err = j.script.Start()
	}
	if err != nil {
		j.t.Fatal(err)
	}
	j.typeLine(line)
}

func (j *job) typeLine(line string) {
	j.t.Helper()
	if _, err := io.WriteString(j.terminal, line+"\n"); err != nil {
		j.t.Errorf("type %q: %v", line, err)
	}
}

// writeTo has a process go on that reads a pipe.
func (j *job) writeTo(pipe string) {
	j.t.Helper()
	file, err := os.OpenFile(filepath.Join(j.dir, pipe), os.O_WRONLY, 0) // waits for the reader
	if err == nil {
		_, err = file.WriteString("\n")
		_ = file.Close() // a pipe
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// pidIn waits for a process that says its pid in a file.
func (j *job) pidIn(name string) (pid int) {
	j.t.Helper()
	if !pace.Eventually(clusterPatience, func() bool {
		text, _ := os.ReadFile(filepath.Join(j.dir, name)) // "" until it is there
		_, err := fmt.Sscan(string(text), &pid)
		return err == nil
	}) {
		j.t.Fatalf("no %s; the files: %s", name, j.files())
	}
	return pid
}

// files has what agent, batch script and terminal have printed.
func (j *job) files() (all string) {
	for _, name := range []string{"said", "batch.out", "terminal"} {
		text, _ := os.ReadFile(filepath.Join(j.dir, name)) // "" without such a file
		all += fmt.Sprintf("\n%s: %s", name, text)
	}
	return all
}

var inJob = regexp.MustCompile(`/job_(\d+)/step_(\w+)/`)

// awaitStart waits until the script is about to start the agent. It delegates its cgroup where the cell wants
// that.
func (j *job) awaitStart() {
	j.t.Helper()
	path, err := bed.ProcessPath(j.pidIn("start.pid"))
	if err != nil {
		j.t.Fatal(err)
	}
	m := inJob.FindStringSubmatch(path)
	step := map[string]string{"sbatch": "batch", "srun --pty": "0", "salloc": "interactive"}[j.cell.start]
	if m == nil || m[2] != step {
		j.t.Fatalf("the agent is in %s, want step %s of a job", path, step)
	}
	j.id = m[1]
	j.group = path
	if j.cell.backend == "delegated" {
		if err := bed.Delegate(filepath.Join(bed.Root(j.t), path), j.cell.user.UID); err != nil {
			j.t.Fatal(err)
		}
	}
}

// members are the command lines of the sleeping processes of a server; of all of them without a number.
func (j *job) members(number string) []string {
	return slices.DeleteFunc(commands(bed.Root(j.t), "sleep "+j.mark+number), func(line string) bool {
		return !strings.HasPrefix(line, "sleep ")
	})
}

// awaitMembers waits until each server has both of its processes.
func (j *job) awaitMembers() {
	j.t.Helper()
	const each = 2
	isUp := pace.Eventually(clusterPatience, func() bool {
		j.registered = len(j.members(""))
		return j.registered == each*len(hiders)
	})
	if !isUp {
		j.t.Fatalf("%d processes, want %d each of %q; the files: %s", j.registered, each, hiders, j.files())
	}
}

// wantMembersInside: all are in the job's step, and on the backend of the cell.
func (j *job) wantMembersInside() {
	j.t.Helper()
	for path, lines := range j.places() {
		isRight := path == j.group
		if j.cell.backend == "delegated" {
			isRight = strings.HasPrefix(path, j.group+"/mcp-")
		}
		if !isRight {
			j.t.Errorf("in %s: %q; the client is in %s", path, lines, j.group)
		}
	}
	said, _ := os.ReadFile(filepath.Join(j.dir, "said")) // "" has not the words
	const weaker = "contained without cgroups"
	wantSaid := j.cell.front == "gateway" && j.cell.backend == "tree"
	if strings.Contains(string(said), weaker) != wantSaid {
		j.t.Errorf("%s: %s", j.cell.front, said)
	}
}

// places has the command lines of the members by their cgroup.
func (j *job) places() map[string][]string {
	found := map[string][]string{}
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, process := range processes {
		text, _ := os.ReadFile(process + "/cmdline") // "", if it has ended
		line := strings.ReplaceAll(string(text), "\x00", " ")
		if !strings.HasPrefix(line, "sleep "+j.mark) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(process)) // the pattern has digits alone
		path, err := bed.ProcessPath(pid)
		if err != nil {
			j.t.Errorf("%s: %v", line, err)
		}
		found[path] = append(found[path], line)
	}
	return found
}

// end ends what the cell says, and waits for Slurm. Of an agent that is killed the job goes on.
func (j *job) end() {
	j.t.Helper()
	switch j.cell.end {
	case "script ends":
		j.writeTo("end")
	case "scancel":
		j.sh(host.Root, "scancel "+j.id)
	case "time limit":
	case "out of memory":
		j.writeTo("hold")
	case "shell exits":
		j.typeLine("exit")
	case "terminal closes":
		if err := j.script.Process.Kill(); err != nil {
			j.t.Error(err)
		}
	case "agent killed":
		agent, err := escape.OpenProcess(j.pidIn("agent.pid"))
		if err != nil {
			j.t.Fatal(err)
		}
		defer agent.Close()
		agent.Signal(unix.SIGKILL)
		return
	}
	j.awaitEnd(j.id)
}

// countLeft counts the processes that are left of each server, when there was time.
func (j *job) countLeft() []int {
	j.t.Helper()
	// a launcher and a guard have the mark in their command lines, too
	for _, line := range leftOf(j.t, "sleep "+j.mark) {
		j.t.Errorf("left: %s", line)
	}
	if j.cell.end == "agent killed" && !j.isQueued(j.id) {
		j.t.Errorf("job %s ended with the agent", j.id)
	}
	var counts []int
	for i := range hiders {
		counts = append(counts, len(j.members(strconv.Itoa(i+1))))
	}
	return counts
}

// leftOf are the command lines with a text that are left when there was time.
func leftOf(t *testing.T, text string) (left []string) {
	t.Helper()
	pace.Eventually(escape.Patience, func() bool {
		left = commands(bed.Root(t), text)
		return len(left) == 0
	})
	return left
}

// clear ends the job, also one that failed.
func (j *job) clear() {
	if j.t.Failed() {
		j.t.Logf("the files: %s", j.files())
	}
	if j.terminal != nil {
		_ = j.terminal.Close()      // it may have ended
		_ = j.script.Process.Kill() // as above
		_ = j.script.Wait()         // its status is that of the shell
	}
	if j.id != "" {
		_ = j.command(host.Root, "scancel", j.id).Run() // of a job that has ended it fails
		j.awaitEnd(j.id)
	}
	_ = os.RemoveAll(j.dir)
}

// tell writes a line to the agent.
func (j *job) tell(line string) {
	j.t.Helper()
	file, err := os.OpenFile(filepath.Join(j.dir, "go"), os.O_RDWR, 0)
	if err == nil {
		_, err = file.WriteString(line + "\n")
		_ = file.Close() // a pipe, which the agent has open
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// awaitLine waits until the agent has printed a line that begins so.
func (j *job) awaitLine(prefix string) {
	j.t.Helper()
	if !pace.Eventually(clusterPatience, func() bool {
		text, _ := os.ReadFile(filepath.Join(j.dir, "said")) // "" until it is there
		return strings.Contains("\n"+string(text), "\n"+prefix)
	}) {
		j.t.Fatalf("no line %q; the files: %s", prefix, j.files())
	}
}

// crash kills the process of Slurm's that looks after a batch job, and then cancels the job.
func (j *job) crash() {
	j.t.Helper()
	step := filepath.Join(bed.Root(j.t), j.group[:strings.Index(j.group, "/user/")], "slurm")
	pids, err := escape.GroupPids(step)
	if err != nil || len(pids) == 0 {
		j.t.Fatalf("%s: %v, %v", step, pids, err)
	}
	for _, pid := range pids {
		daemon, err := escape.OpenProcess(pid)
		if err != nil {
			j.t.Fatal(err)
		}
		daemon.Signal(unix.SIGKILL)
		escape.WantEnded(j.t, daemon)
		daemon.Close()
	}
	j.sh(host.Root, "scancel "+j.id)
	j.awaitEnd(j.id)
}

// killGroup ends what is left in the job's cgroup.
func (j *job) killGroup() {
	j.t.Helper()
	dir := filepath.Join(bed.Root(j.t), j.group[:strings.Index(j.group, "/step_")])
	if err := bed.Kill(dir, escape.Patience); err != nil {
		j.t.Error(err)
	}
}
