// SPDX-License-Identifier: Apache-2.0

// Package container stops the containers that an engine runs for a server. The program of an engine
// (docker, podman, nerdctl) is a client: the container belongs to another group and outlives that program.
//
// So mcpscope adds a label with the id of the server to the command. When the processes of the server have
// exited, it stops the containers with that label. It uses the program of the engine with the environment
// and global flags of the server: they select a context, a remote host, a namespace or another user.
package container

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

const labelKey = "mcpscope.id="

// Uncontained is a note for a command that an engine runs in an existing container (docker exec), or "".
func Uncontained(argv []string) string {
	if what := name.OtherContainer(argv); what != "" {
		return what + ": what it starts in that container is not ended with the server"
	}
	return ""
}

// Labelled adds a label with the id, and flags for the limits, to a command line that runs a container.
// compose knows no flags for limits.
func Labelled(argv []string, id string, limits cgroup.Limits) []string {
	c := name.ContainerOf(argv)
	if c == nil {
		return argv
	}
	flags := []string{"--label", labelKey + id}
	if !c.Compose {
		flags = append(flags, engineFlags(limits)...)
	}
	return c.With(flags...)
}

func engineFlags(limits cgroup.Limits) (flags []string) {
	value := map[string]string{}
	for _, l := range limits.Files {
		value[l.File] = l.Value
	}
	var memory, swap, pids, quota, period uint64
	limited, _ := fmt.Sscan(value["memory.max"], &memory) // 0 for "max", which is no number
	if limited > 0 {
		flags = append(flags, fmt.Sprintf("--memory=%db", memory))
	}
	if n, _ := fmt.Sscan(value["memory.swap.max"], &swap); n > 0 && limited > 0 {
		flags = append(flags, fmt.Sprintf("--memory-swap=%db", memory+swap)) // which is both together
	}
	if n, _ := fmt.Sscan(value["cpu.max"], &quota, &period); n == 2 && period > 0 {
		flags = append(flags, fmt.Sprintf("--cpus=%.3f", float64(quota)/float64(period)))
	}
	if n, _ := fmt.Sscan(value["pids.max"], &pids); n > 0 {
		flags = append(flags, fmt.Sprintf("--pids-limit=%d", pids))
	}
	return flags
}

// EndsFirst reports whether an engine needs processes among the members to stop and remove a container:
// those of podman do (conmon).
func EndsFirst(engine string) bool { return engine == "podman" }

// script repeats until the engine lists no container, and prints "none". A container that the engine
// removes (--rm) is listed for some time. A container that has just been requested may not be listed yet,
// so an empty list counts only twice.
const script = `label=$1 grace=$2; shift 2
exec </dev/null 2>/dev/null
looks=2 pause=:
while [ $looks -gt 0 ]; do
	all=$("$@" ps -aq --no-trunc --filter "label=$label") || exit 1
	if [ -z "$all" ]; then
		looks=$((looks - 1))
		continue
	fi
	looks=1
	$pause
	"$@" stop -t "$grace" $all >/dev/null
	"$@" rm -f $all >/dev/null
	grace=0 pause='sleep 1'
done
echo none`

// End stops and removes the containers of the server with this id, command line and environment. grace is the
// time between SIGTERM and SIGKILL in a container. An error means that a container may be left.
func End(id string, command, env []string, grace time.Duration) error {
	c := name.ContainerOf(command)
	if c == nil {
		return nil
	}
	seconds := int((policy.FiniteGrace(grace) + time.Second - 1) / time.Second)
	// a launcher that reaps orphans may have reaped it, so the exit status is of no use
	answer, err := unix.MemfdCreate("answer", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create memory file: %w", err)
	}
	defer unix.Close(answer)
	argv := append([]string{"sh", "-c", script, "sh", labelKey + id, strconv.Itoa(seconds)}, c.Asked()...)
	pidfd := -1
	pid, err := syscall.ForkExec("/bin/sh", argv, &syscall.ProcAttr{ // os/exec drops duplicate variables
		Env: env, Files: []uintptr{0, uintptr(answer), 2},
		Sys: &syscall.SysProcAttr{Setpgid: true, PidFD: &pidfd},
	})
	if err != nil {
		return fmt.Errorf("ask %s for containers: %w", c.Engine, err)
	}
	defer unix.Close(pidfd)
	within := time.Duration(seconds)*time.Second + policy.EngineWithin
	if !linux.AwaitWithin(pidfd, unix.POLLIN, within) {
		_ = unix.Kill(-pid, unix.SIGKILL) // its process group: it lives, so the number is not reused
	}
	_, _ = unix.Wait4(pid, nil, 0, nil)                        // the answer counts, not the status
	if n, _ := unix.Pread(answer, make([]byte, 1), 0); n > 0 { // nothing else writes to it
		return nil
	}
	const left = "%s could not be asked: containers with the label %s%s may be left"
	return fmt.Errorf(left, c.Engine, labelKey, id)
}
