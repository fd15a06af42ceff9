// SPDX-License-Identifier: Apache-2.0

package kills

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// The kinds of processes in a kill's world, besides the client.
const (
	launcher = "launcher"
	guard    = "guard"
	helper   = "helper"
	member   = "member" // of the server's group
	unborn   = "unborn" // none of these yet, or no longer
)

// A process is one that belongs to a kill.
type process struct {
	pid, parent int
	kind        string
	marked      bool // it has the mark in its environment: it still has memory, so it can run code
}

func (p process) String() string { return p.kind + ": " + escape.Describe(p.pid) }

// mark is a variable that client, launcher, guard, helper and server inherit, and no other process has.
func (k *kill) mark() string { return "KILL_TABLE_MARK=" + k.name }

// look lists the processes with the mark, and those without it in the world's group: a process that executes
// a program has no environment for a moment. The client, and the world's own process, are left out.
func (k *kill) look() []process {
	own := k.site.Root != nil // otherwise the site has a login's processes, too
	var found []process
	for pid, parent := range escape.Parents() {
		if pid == k.client.Own.PID || own && pid == k.site.Root.Cmd.Process.Pid {
			continue
		}
		path, _ := bed.ProcessPath(pid) // empty if it has exited
		kind := k.kindOf(pid, path)
		// after the kind: what has a mark here had its command line there
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		marked := bytes.Contains(environment, []byte(k.mark()+"\x00"))
		state, err := escape.StatField(pid, 3)
		if err != nil || state == "Z" || state == "X" {
			continue
		}
		if marked || own && k.inside(k.site.Dir+"/", path) || k.isMembers(path) {
			found = append(found, process{pid, parent, kind, marked})
		}
	}
	return found
}

// kindOf has no kind for a process that becomes a guard, a helper or the main process, and is not called so yet, nor
// for one that exits or executes a program.
func (k *kill) kindOf(pid int, path string) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty if it has exited
	switch {
	case len(line) == 0:
		return unborn
	case pid == k.client.Server.PID && !k.client.Server.Ended(0):
		return launcher
	case bytes.HasPrefix(line, []byte("helper-")):
		return helper
	case bytes.HasPrefix(line, []byte("guard-")):
		return guard
	case k.groups == "" || k.isMembers(path):
		return member
	}
	return unborn
}

// isMembers reports whether a group is the server's own, or below it.
func (k *kill) isMembers(path string) bool {
	return k.groups != "" && k.inside(filepath.Join(k.groups, "mcp-"+k.name+"-"), path) &&
		!strings.Contains(path, "/guards")
}

// inside reports whether the path of a process begins with a directory, or with the beginning of one.
func (k *kill) inside(dir, path string) bool {
	return strings.HasPrefix(path+"/", strings.TrimPrefix(dir, bed.Root(k.t)))
}

// ofKind looks for the processes of one kind.
func (k *kill) ofKind(kind string) []process {
	var found []process
	for _, p := range k.look() {
		if p.kind == kind {
			found = append(found, p)
		}
	}
	return found
}

// abandoned reports whether no process is left that could still stop the server. It looks twice, because a
// process may be forked during the first look, by a process that exits before its turn comes.
func (k *kill) abandoned() bool {
	for range 2 {
		for _, p := range k.look() {
			if p.kind != member {
				return false
			}
		}
	}
	return true
}

// directories lists those of the server.
func (k *kill) directories() []string {
	if k.groups == "" {
		return nil
	}
	entries, _ := os.ReadDir(k.groups) // the first server makes it
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "mcp-"+k.name+"-") {
			found = append(found, filepath.Join(k.groups, e.Name()))
		}
	}
	return found
}

// killKind sends SIGKILL to the processes of one kind that live now, and reports whether there were any.
func (k *kill) killKind(kind string) bool {
	hit := false
	for _, found := range k.ofKind(kind) {
		if k.killProcess(found) {
			k.killed[found.pid] = true
			hit = true
		}
	}
	return hit
}

// killProcess holds the process first: its pid may have changed hands since it was found.
func (k *kill) killProcess(found process) bool {
	p, err := escape.OpenProcess(found.pid)
	if err != nil {
		return false
	}
	defer p.Close()
	parent, err := escape.ParentOf(p.PID)
	if err != nil || parent != found.parent && parent != 1 {
		return false
	}
	p.Signal(unix.SIGKILL)
	return true
}
