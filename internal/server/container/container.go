// SPDX-License-Identifier: Apache-2.0

//go:build linux

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
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// What a server has in a container is ended here. An engine's program (docker, podman, nerdctl) is a client: the
// container is another process's child, in a group of the engine's, and outlives that program's end. So a
// container that a server runs in gets a label with the server's id when it is started, and the engine is asked
// for containers with that label when the server's own processes are gone.
//
// The engine is asked by its own program, with the server's environment and with what stood before the
// subcommand when the server was started: only that knows which engine is meant by a context, a remote host, a
// namespace or another user, and podman has no daemon that could be asked.

// labelKey is that of the label; its value is the server's id.
const labelKey = "mcpscope.id="

// Contained is a server whose containers are to be ended.
type Contained struct {
	ID        string
	Argv, Env []string // as it was started
	// Grace is for what runs in a container to end by itself, between SIGTERM and SIGKILL.
	Grace time.Duration
}

// Uncontained is a note for a server that an engine runs in a container which is there already, "" for any other: nobody
// can tell what of it the server has started.
func Uncontained(argv []string) string {
	if what := name.OtherContainer(argv); what != "" {
		return what + ": what it starts in that container is not ended with the server"
	}
	return ""
}

// Labelled is the command line of a server with that id: what it runs in a container can be found by it, and has the
// flags for its limits, in front of the line's own. compose knows none of those.
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

// EndsFirst tells whether an engine has processes of its own among the server's, without which it can neither stop
// nor remove the container.
func EndsFirst(engine string) bool { return engine == "podman" }

// script asks until there is none, and says so: what is being removed by the engine itself (--rm) is listed until
// it has gone. If there never was one, it asks twice: what was asked for last may not be listed at once.
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
echo ` + none

const none = "none"

// End stops and removes the server's containers, and returns when there are none. It does nothing for a server
// that is in none. The error says that it is not known whether one is left.
func (s Contained) End() error {
	c := name.ContainerOf(s.Argv)
	if c == nil {
		return nil
	}
	grace := max(int((s.Grace+time.Second-1)/time.Second), 0)
	// In a launcher that reaps for others its status may be gone.
	answer, err := unix.MemfdCreate("answer", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create memory file: %w", err)
	}
	defer unix.Close(answer)
	argv := append([]string{"sh", "-c", script, "sh", labelKey + s.ID, strconv.Itoa(grace)}, c.Asked()...)
	pidfd := -1
	pid, err := syscall.ForkExec("/bin/sh", argv, &syscall.ProcAttr{ // os/exec drops variables that are there twice
		Env: s.Env, Files: []uintptr{0, uintptr(answer), 2}, Sys: &syscall.SysProcAttr{Setpgid: true, PidFD: &pidfd},
	})
	if err != nil {
		return fmt.Errorf("ask %s for containers: %w", c.Engine, err)
	}
	defer unix.Close(pidfd)
	within := time.Duration(grace)*time.Second + protocol.EngineWithin
	late := !linux.AwaitEnd(pidfd, unix.POLLIN, within)
	if late {
		_ = unix.Kill(-pid, unix.SIGKILL) // the process group that it leads: it lives, so nobody else does
	}
	_, _ = unix.Wait4(pid, nil, 0, nil) // as above
	said := make([]byte, len(none))
	if n, err := unix.Pread(answer, said, 0); err == nil && string(said[:n]) == none {
		return nil
	}
	why := "could not be asked"
	if late {
		why = fmt.Sprintf("did not answer within %v", within)
	}
	return fmt.Errorf("%s %s: containers with the label %s%s may be left", c.Engine, why, labelKey, s.ID)
}
