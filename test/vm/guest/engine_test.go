// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

// An engine is docker or podman, as a user has it.
type engine struct {
	t    *testing.T
	argv []string
	user host.User
}

// A container is a way to start one, and its backend.
type container struct {
	name    string
	flags   []string
	backend string
	reaps   bool // its first process does
	whole   bool // the selftest, which takes its time
}

// overlayfs would take a module of the kernel's.
var podman = []string{"podman", "--storage-driver=vfs"}

var engines = []struct {
	name string
	engine
	containers []container
}{
	{"docker", engine{argv: []string{"docker"}, user: host.Root}, []container{
		{name: "default", backend: "tree", whole: true},
		{name: "init", flags: []string{"--init"}, backend: "tree", reaps: true},
		{name: "host's cgroup namespace", flags: []string{"--cgroupns=host"}, backend: "tree"},
		{name: "privileged", flags: []string{"--privileged"}, backend: "cgroup"},
	}},
	{"podman", engine{argv: podman, user: host.Root}, []container{
		{name: "default", backend: "tree"},
		{name: "init", flags: []string{"--init"}, backend: "tree", reaps: true},
		{name: "host's cgroup namespace", flags: []string{"--cgroupns=host"}, backend: "tree"},
		{name: "systemd", flags: []string{"--systemd=always"}, backend: "cgroup", whole: true},
	}},
	{"rootless podman", engine{argv: podman, user: host.Tester}, []container{
		{name: "default", backend: "tree", whole: wholeContainers()}, // as docker's own
		{name: "init", flags: []string{"--init"}, backend: "tree", reaps: true},
		{name: "systemd", flags: []string{"--systemd=always"}, backend: "cgroup"},
	}},
}

// wholeContainers: all that there is about containers was asked for, which takes two hours.
func wholeContainers() bool { return os.Getenv("TESTS_CONTAINERS") != "" }

// image is made of rootFS by the engines.
const image = "mcpscope-test"

// command is a command line of the engine's.
func (e engine) command(args ...string) *exec.Cmd {
	cmd := host.Current(e.t).Command(e.user, slices.Concat(e.argv, args)...)
	if e.user.UID != 0 {
		cmd.Env = e.user.ManagerEnviron()
	}
	return cmd
}

// well runs what has to succeed, and returns its stdout.
func (e engine) well(args ...string) string {
	e.t.Helper()
	var said bytes.Buffer
	cmd := e.command(args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		e.t.Fatalf("%s: %v; stderr: %s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// load makes the image.
func (e engine) load(root []byte) {
	e.t.Helper()
	cmd := e.command("import", "-", image)
	cmd.Stdin = bytes.NewReader(root)
	if out, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, out)
	}
}

// first is the first process of a container, as we see it.
func (e engine) first(id string) int {
	e.t.Helper()
	pid, err := strconv.Atoi(e.well("inspect", "--format", "{{.State.Pid}}", id))
	if err != nil || pid == 0 {
		e.t.Fatalf("container %s has no process: %v", id, err)
	}
	return pid
}

// startDocker starts the daemon, which nothing needs before, and ends it after the test.
func startDocker(t *testing.T) {
	t.Helper()
	h := host.Current(t)
	if out, err := h.Manage(host.Root, "systemctl", "start", "docker.service").CombinedOutput(); err != nil {
		log, _ := h.Command(host.Root, "journalctl", "--unit=docker", "--lines=30").Output()
		t.Fatalf("start docker: %v: %s\n%s", err, out, log)
	}
	t.Cleanup(func() {
		engine{t: t, argv: podman, user: host.Tester}.well("system", "migrate") // ends the process that keeps its user namespace
		engine{t: t, argv: []string{"systemctl", "stop"}}.well("docker.service", "docker.socket", "containerd.service")
	})
}

// rootFS is an archive of a root file system that has mcpscope and a shell.
func rootFS(t *testing.T) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "dev/", "etc/", "proc/", "sys/"} {
		add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	add(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil)
	for name, file := range map[string]string{"bin/mcpscope": mcpscope, "bin/mcpscopectl": mcpscope + "ctl", "bin/busybox": "/bin/busybox"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		add(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755}, content)
	}
	for _, tool := range []string{"sh", "setsid", "sleep"} {
		add(tar.Header{Name: "bin/" + tool, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}
