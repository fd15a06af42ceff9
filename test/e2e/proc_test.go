package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// pfExiting is PF_EXITING of /proc/PID/stat's flags: such a process runs no
// code of its own any more. The kernel takes it out of its group shortly before
// its pidfd becomes readable.
const pfExiting = 0x4

// statField returns a field of /proc/PID/stat, counted as in proc(5).
func statField(pid, number int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	_, after, ok := bytes.Cut(text[bytes.LastIndexByte(text, ')'):], []byte(") "))
	fields := strings.Fields(string(after))
	if !ok || len(fields) <= number-3 {
		return "", errors.New("parse stat: " + string(text))
	}
	return fields[number-3], nil
}

func exiting(pid int) bool {
	flags, err := statField(pid, 9)
	if err != nil {
		return true // gone
	}
	n, err := strconv.ParseUint(flags, 10, 64)
	return err == nil && n&pfExiting != 0
}

// describe says all that a failure message can tell of a process.
func describe(pid int) string {
	var words []string
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Sprintf("pid %d, gone", pid)
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"Name", "State", "PPid", "NSpid", "Threads", "SigIgn", "TracerPid"}, key) {
			words = append(words, key+"="+strings.Join(strings.Fields(value), " "))
		}
	}
	group, _ := bed.ProcessPath(pid) // empty when it is gone
	words = append(words, "cgroup="+group)
	wchan, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid)) // not on every kernel
	return fmt.Sprintf("pid %d, %s wchan=%s", pid, strings.Join(words, " "), wchan)
}

// pidOf is the pid, in our pid namespace, of the process that a pidfd refers to.
func pidOf(pidfd int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Pid:"); ok {
			if pid, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
				return pid
			}
		}
	}
	return -1
}

// killTree does what VS Code and the C# SDK do: stop the process and all that
// descends from it by parent pid, until no new one shows, then kill them.
func killTree(root *process) {
	tree := map[int]*process{root.pid: root}
	root.signal(unix.SIGSTOP)
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents() {
			if tree[pid] != nil || tree[parent] == nil {
				continue
			}
			if p := openChild(pid, tree); p != nil {
				defer p.close()
				p.signal(unix.SIGSTOP)
				tree[pid] = p
				grown = true
			}
		}
	}
	for _, p := range tree {
		p.signal(unix.SIGKILL)
	}
}

// openChild makes sure that the pid is still that of a child: with thousands of
// forks a second it may be another process by now. What is read of a process that
// lives on after it was opened is its own.
func openChild(pid int, tree map[int]*process) *process {
	p, err := openProcess(pid)
	if err != nil {
		return nil
	}
	parent, err := parentOf(pid)
	if err != nil || tree[parent] == nil || p.ended(0) {
		p.close()
		return nil
	}
	return p
}

// parents maps each pid to its parent's.
func parents() map[int]int {
	all := make(map[int]int)
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range found {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if parent, err := parentOf(pid); err == nil {
			all[pid] = parent
		}
	}
	return all
}

func parentOf(pid int) (int, error) {
	parent, err := statField(pid, 4)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(parent)
}

// groupPids reads the processes of a group, not of those below it.
func groupPids(dir string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		all = append(all, pid)
	}
	return all, nil
}
