// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	_ "embed"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

var (
	//go:embed testdata/slurm/slurm.conf
	slurmConf string
	//go:embed testdata/slurm/cgroup.conf
	cgroupConf string
)

// clusterPatience bounds what Slurm and podman do: a job with a time limit of a minute ends up to a minute later.
const clusterPatience = 5 * time.Minute

// A cluster is Slurm on this machine alone: controller, node and login node.
type cluster struct{ t *testing.T }

// startCluster starts Slurm's daemons as Debian has them, and ends them after the test.
func startCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{t}
	// Slurm finds its node by name, and uses no address of the loopback network.
	c.sh(host.Root, "ip address replace 192.0.2.1/32 dev lo; echo 192.0.2.1 node >/etc/hosts")
	if err := unix.Sethostname([]byte("node")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, "/etc/slurm/slurm.conf", slurmConf, 0o644)
	writeFile(t, "/etc/slurm/cgroup.conf", cgroupConf, 0o644)
	c.sh(host.Root, "rm -rf /var/lib/slurm/slurmctld/* /var/lib/slurm/slurmd/*")
	t.Cleanup(func() {
		c.sh(host.Root, "scancel --user=tester,root; systemctl stop slurmctld slurmd munge")
		c.sh(host.Root, "systemctl stop node_slurmstepd.scope; ip address delete 192.0.2.1/32 dev lo")
	})
	for _, unit := range []string{"munge", "slurmctld", "slurmd"} {
		out, err := host.Current(t).Manage(host.Root, "systemctl", "start", unit).CombinedOutput()
		if err != nil {
			log, _ := host.Current(t).Command(host.Root, "journalctl", "--unit="+unit, "--lines=30").Output()
			t.Fatalf("start %s: %v: %s\n%s", unit, err, out, log)
		}
	}
	c.awaitIdle()
	return c
}

// awaitIdle waits until the node is up and has no job.
func (c cluster) awaitIdle() {
	c.t.Helper()
	var state string
	pace.Eventually(clusterPatience, func() bool {
		out, _ := c.command(host.Root, "sinfo", "--noheader", "--format=%T").Output() // "", while it starts
		state = strings.TrimSpace(string(out))
		return state == "idle"
	})
	if state != "idle" {
		c.t.Fatalf("the node is %q, want idle", state)
	}
}

func (c cluster) command(u host.User, argv ...string) *exec.Cmd {
	return host.Current(c.t).Command(u, argv...)
}

// sh runs a script that has to succeed, and returns its stdout.
func (c cluster) sh(u host.User, script string) string {
	c.t.Helper()
	var said bytes.Buffer
	cmd := c.command(u, "sh", "-c", script)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		c.t.Errorf("%s: %v; stdout: %s; stderr: %s", script, err, out, said.String())
	}
	return strings.TrimSpace(string(out))
}

// isQueued reports whether Slurm still has something to do for a job.
func (c cluster) isQueued(id string) bool {
	out, _ := c.command(host.Root, "squeue", "--noheader", "--jobs="+id).Output() // an error is an old id
	return strings.TrimSpace(string(out)) != ""
}

// awaitEnd waits until Slurm has ended a job, its epilog included.
func (c cluster) awaitEnd(id string) {
	c.t.Helper()
	if !pace.Eventually(clusterPatience, func() bool { return !c.isQueued(id) }) {
		c.t.Errorf("job %s goes on: %s", id, c.sh(host.Root, "scontrol show job "+id))
	}
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	err := os.WriteFile(path, []byte(text), mode)
	if err == nil {
		err = os.Chmod(path, mode) // whatever the umask is
	}
	if err != nil {
		t.Fatal(err)
	}
}
