// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// BenchmarkCost compares what is executed below a gateway with the same without one: the
// gateway's own children, those of a tool, and a build. Rounds alternate, since the machine has
// other things to do.
func BenchmarkCost(b *testing.B) {
	const rounds, count = 3, 10000
	loop := func(command string) string {
		return fmt.Sprintf("i=0; while [ $i -lt %d ]; do %s; i=$((i+1)); done", count, command)
	}
	script := func(text string) string {
		file, err := os.CreateTemp(b.TempDir(), "script.")
		if err == nil {
			_, err = file.WriteString("#!/bin/sh\n" + text + "\n")
		}
		if err == nil {
			err = file.Chmod(0o755)
		}
		if err != nil {
			b.Fatal(err)
		}
		file.Close()
		return file.Name()
	}
	for _, c := range []struct{ what, line string }{
		{fmt.Sprintf("%d children of the gateway's own", count), fmt.Sprintf("times %d /bin/true", count)},
		{fmt.Sprintf("%d of a tool's", count), "times 1 " + script(loop("/bin/true"))},
		{fmt.Sprintf("%d of a tool's in a session of their own", count), "times 1 " + script(loop("/usr/bin/setsid /bin/true"))},
		{"go build of a package, nothing cached", "times 1 " + script("cd ../.. && GOCACHE=$(mktemp -d) && export GOCACHE && CGO_ENABLED=0 go build -o /dev/null ./freeze; rm -rf \"$GOCACHE\"")},
	} {
		best := map[bool]time.Duration{}
		for range rounds {
			for _, below := range []bool{false, true} {
				took := once(b, below, c.line)
				if best[below] == 0 || took < best[below] {
					best[below] = took
				}
			}
		}
		b.Logf("%s: bare %v, below a gateway %v, %.2f times", c.what, best[false].Round(time.Millisecond), best[true].Round(time.Millisecond),
			float64(best[true])/float64(best[false]))
	}
}

// once returns what the gateway says that it took.
func once(b *testing.B, below bool, line string) time.Duration {
	b.Helper()
	command := []string{binaries.like}
	if below {
		command = append([]string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--"}, command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		fmt.Fprintf(in, "%s\nexit 0\n", line)
		in.Close()
	}()
	out, err := cmd.Output()
	var took int64
	var failures int
	for _, text := range strings.Split(string(out), "\n") {
		if n, _ := fmt.Sscanf(text, "times %d %d", &took, &failures); n == 2 {
			break
		}
	}
	if err != nil || took == 0 || failures > 0 {
		b.Fatalf("%q: %v: %s", command, err, out)
	}
	return time.Duration(took)
}
