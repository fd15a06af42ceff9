// SPDX-License-Identifier: Apache-2.0

package container

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
)

// A container gets the limits that its engine has a flag for, in front of the line's own, of which the last counts.
func TestEngineFlags(t *testing.T) {
	limits := func(all ...string) (l cgroup.Limits) {
		for _, text := range all {
			file, value, _ := strings.Cut(text, "=")
			l.Files = append(l.Files, cgroup.Limit{File: file, Value: value})
		}
		return l
	}
	for _, c := range []struct {
		line   string
		limits cgroup.Limits
		want   string
	}{
		{"docker run -i --memory=1g IMAGE", limits("memory.max=1048576"), "docker run --label mcpscope.id=ID --memory=1048576b -i --memory=1g IMAGE"},
		{"podman run IMAGE", limits("pids.max=100", "cpu.max=150000 100000", "memory.swap.max=0", "memory.max=1048576", "io.weight=50"),
			"podman run --label mcpscope.id=ID --memory=1048576b --memory-swap=1048576b --cpus=1.500 --pids-limit=100 IMAGE"},
		{"docker run IMAGE", limits("memory.swap.max=0", "cpu.max=max 100000"), "docker run --label mcpscope.id=ID IMAGE"},
		{"npx run", limits("memory.max=1048576"), "npx run"},
	} {
		if got := strings.Join(Labelled(strings.Fields(c.line), "ID", c.limits), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
}

// Between two requests to an engine that removes slowly there is a pause.
func TestEngineIsAskedWithPauses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"docker": `#!/bin/sh
[ "$1" != ps ] || [ -e "$0.paused" ] || echo container
`,
		"sleep": `#!/bin/sh
: >"${0%sleep}docker.paused"
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := []string{filepath.Join(dir, "docker"), "run", "IMAGE"}
	if err := End("id", command, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, 0); err != nil {
		t.Error(err)
	}
}

// An infinite grace is longer than any other: as 0 seconds it would kill the container at once.
func TestInfiniteGraceOfAContainer(t *testing.T) {
	dir := t.TempDir()
	docker := filepath.Join(dir, "docker")
	const text = `#!/bin/sh
case $1 in
ps) [ -e "$0.grace" ] || echo container ;;
stop) echo "$3" >"$0.grace" ;;
esac
`
	if err := os.WriteFile(docker, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	command := []string{docker, "run", "IMAGE"}
	if err := End("id", command, os.Environ(), freeze.Forever); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(docker + ".grace")
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || seconds < int((24*time.Hour).Seconds()) {
		t.Errorf("docker stop -t %s", b)
	}
}
