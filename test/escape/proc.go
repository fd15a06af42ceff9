// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/test/bed"
)

// pfExiting is PF_EXITING of /proc/PID/stat's flags: such a process runs no
// code of its own any more. The kernel takes it out of its group shortly before
// its pidfd becomes readable.
const pfExiting = 0x4

// StatField returns a field of /proc/PID/stat, counted as in proc(5).
func StatField(pid, number int) (string, error) {
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
	flags, err := StatField(pid, 9)
	if err != nil {
		return true // gone
	}
	n, err := strconv.ParseUint(flags, 10, 64)
	return err == nil && n&pfExiting != 0
}

// OpenFiles returns the names of a process's open files, as in the links in /proc/PID/fd: proc_pid_fd(5). A
// file that is closed meanwhile is left out.
func OpenFiles(pid int) ([]string, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	all, err := os.ReadDir(dir)
	var names []string
	for _, fd := range all {
		if name, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// Describe describes a process for a failure message.
func Describe(pid int) string {
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
	group, _ := bed.ProcessPath(pid) // empty if it has exited
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

// Parents maps each pid to its parent's.
func Parents() map[int]int {
	all := make(map[int]int)
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range found {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if parent, err := ParentOf(pid); err == nil {
			all[pid] = parent
		}
	}
	return all
}

// ParentOf is the pid of the parent, 0 outside of our pid namespace.
func ParentOf(pid int) (int, error) {
	parent, err := StatField(pid, 4)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(parent)
}

// GroupPids reads the processes of a group, not of those below it.
func GroupPids(dir string) ([]int, error) {
	return bed.ReadInts(filepath.Join(dir, "cgroup.procs"))
}
