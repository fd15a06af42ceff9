// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// A shared machine: each user has agents, each agent has servers, and each user has a leak.
const (
	firstUID       = 2000
	serversOfAgent = 10
)

var agents = []string{"claude", "codex"}

// agentScript leaves a leak behind, starts as many servers as it is told, and lives until it is killed. It is
// executed by its name, which is the client's.
const agentScript = `#!/bin/bash
sh -c ': | sleep 86400 | : &'
opened=()
for i in $(seq "$1"); do
	exec {fd}> >(
		for other in "${opened[@]}"; do exec {other}>&-; done
		exec %s run --name "server-$i" -- cat >/dev/null
	)
	opened+=("$fd")
done
exec sleep infinity
`

// BenchmarkShared measures root's commands on a machine that many users share.
func BenchmarkShared(b *testing.B) {
	h := host.Current(b)
	fmt.Println(machine())
	accounts := addUsers(b)
	for _, agent := range agents {
		script := fmt.Sprintf(agentScript, mcpscopeFile)
		must(b, os.WriteFile(filepath.Join(host.Shared, agent), []byte(script), 0o755))
	}
	began := time.Now()
	for _, u := range accounts {
		manager := fmt.Sprintf("user@%d.service", u.UID)
		b.Cleanup(func() { host.StopUnits(b, host.Root, manager) })
		host.Must(b, h.Command(host.Root, "systemctl", "start", manager))
		for _, agent := range agents {
			argv := []string{filepath.Join(host.Shared, agent), strconv.Itoa(serversOfAgent)}
			h.Start(b, host.Service{User: u, Argv: argv})
		}
	}
	want := len(accounts) * len(agents) * serversOfAgent
	var listed int
	if !pace.Eventually(5*time.Minute, func() bool {
		text := host.Must(b, h.Command(host.Root, mcpscopeFile, "ls", "--all-users", "--format", "{{.ID}}"))
		listed = len(strings.Fields(text))
		return listed >= want
	}) {
		b.Fatalf("%d servers, want %d", listed, want)
	}
	fmt.Printf("%d servers of %d users in %.0f s\n", listed, len(accounts), time.Since(began).Seconds())
	times := &table{title: "Root's commands on a shared machine", unit: "ms"}
	processor := &table{title: "CPU time of each, also of its children", unit: "ms"}
	memory := &table{title: "The most memory of each", unit: "MB"}
	for range 5 {
		for _, args := range [][]string{
			{"ls", "--all-users"}, {"metrics", "--all-users"}, {"sweep", "--all-users", "--dry-run"},
		} {
			cmd := h.Command(host.Root, append([]string{mcpscopeFile}, args...)...)
			began := time.Now()
			out, err := cmd.CombinedOutput()
			took := time.Since(began)
			if err != nil {
				b.Fatalf("%q: %v: %s", args, err, out)
			}
			name := strings.Join(args, " ")
			times.add(name, milliseconds(took))
			processor.add(name, milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
			memory.add(name, megabytes(cmd.ProcessState.SysUsage()))
		}
		topFrame(b, h, times, processor, memory)
	}
	b.ReportMetric(0, "ns/op")
	for _, t := range []*table{times, processor, memory} {
		t.print()
	}
}

// topFrame measures the first frame.
func topFrame(b *testing.B, h *host.Host, times, processor, memory *table) {
	const name = "top --all-users, first frame"
	cmd := h.Command(host.Root, mcpscopeFile, "top", "--all-users")
	began := time.Now()
	term := transparent.StartTerminal(b, cmd, cmd.Start)
	term.Expect("server-")
	times.add(name, milliseconds(time.Since(began)))
	term.Type("q")
	must(b, cmd.Wait())
	processor.add(name, milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
	memory.add(name, megabytes(cmd.ProcessState.SysUsage()))
}

func megabytes(usage any) float64 { return float64(usage.(*syscall.Rusage).Maxrss) / 1024 }

// addUsers makes accounts with homes and configurations, as the booted host has a disk of its own.
func addUsers(b *testing.B) []host.User {
	var made []host.User
	var passwd, group, shadow strings.Builder
	for i := range escape.Number("TESTS_USERS", 50) {
		u := host.User{Name: fmt.Sprintf("user%d", i), UID: firstUID + i}
		u.Home = "/home/" + u.Name
		made = append(made, u)
		fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:/bin/bash\n", u.Name, u.UID, u.UID, u.Home)
		fmt.Fprintf(&group, "%s:x:%d:\n", u.Name, u.UID)
		fmt.Fprintf(&shadow, "%s:!:1::::::\n", u.Name)
		must(b, os.MkdirAll(u.Home, 0o700))
		file := filepath.Join(u.Home, ".claude.json")
		const configuration = `{"mcpServers": {"sleep": {"command": "sleep", "args": ["86400"]}}}`
		must(b, os.WriteFile(file, []byte(configuration), 0o600))
		must(b, os.Chown(file, u.UID, u.UID))
		must(b, os.Chown(u.Home, u.UID, u.UID))
	}
	for file, lines := range map[string]string{
		"/etc/passwd": passwd.String(), "/etc/group": group.String(), "/etc/shadow": shadow.String(),
	} {
		text, err := os.ReadFile(file)
		must(b, err)
		must(b, os.WriteFile(file, slices.Concat(text, []byte(lines)), 0o640))
	}
	return made
}
