// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A mount is one line of /proc/self/mountinfo.
type mount struct {
	root, point, fstype string
}

func mounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []mount
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if m, ok := parseMount(lines.Text()); ok {
			all = append(all, m)
		}
	}
	return all, lines.Err()
}

// parseMount reads "id parent dev root point options [tags…] - fstype source options".
func parseMount(line string) (mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields := strings.Fields(before)
	if !ok || len(fields) < 5 {
		return mount{}, false
	}
	fstype, _, _ := strings.Cut(after, " ")
	return mount{root: unescape(fields[3]), point: unescape(fields[4]), fstype: fstype}, true
}

// unescape undoes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		if len(s) >= 4 && s[0] == '\\' {
			if c, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				s = s[4:]
				continue
			}
		}
		out.WriteByte(s[0])
		s = s[1:]
	}
	return out.String()
}

// ProcessPath is a process's path in the cgroup2 hierarchy.
func ProcessPath(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n"), nil
		}
	}
	return "", errors.New("there is no cgroup2 hierarchy")
}

// Directory is where a path of the cgroup2 hierarchy is seen.
func Directory(path string) (string, error) {
	all, err := mounts()
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if rel, below := strings.CutPrefix(path, strings.TrimSuffix(m.root, "/")); m.fstype == "cgroup2" && below {
			return filepath.Join(m.point, rel), nil
		}
	}
	return "", errors.New("the cgroup2 hierarchy is not mounted")
}

// ownDir is the directory of this process's cgroup. A path alone can name
// somebody else's group (a private namespace over the host's mount), hence the
// look for our own pid in it.
func ownDir() (string, error) {
	path, err := ProcessPath(os.Getpid())
	if err != nil {
		return "", err
	}
	all, err := mounts()
	if err != nil {
		return "", err
	}
	for _, m := range all {
		rel, below := strings.CutPrefix(path, strings.TrimSuffix(m.root, "/"))
		if m.fstype != "cgroup2" || !below {
			continue
		}
		dir := filepath.Join(m.point, rel)
		if pids, err := readInts(filepath.Join(dir, "cgroup.procs")); err == nil && slices.Contains(pids, os.Getpid()) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no cgroup2 mount shows this process's group %s", path)
}

// place is the directory in which the sandbox is made. Runs below this one have
// places of their own, so they don't inherit the variable.
func place() (string, error) {
	if dir := os.Getenv(PlaceEnv); dir != "" {
		return dir, os.Unsetenv(PlaceEnv)
	}
	return ownDir()
}

// OwnGroup is the directory of the caller's own group, wherever it is mounted.
func OwnGroup() (string, error) { return ownDir() }

// hierarchyPath is the path of the group at dir as /proc/PID/cgroup shows it.
func hierarchyPath(dir string) (string, error) {
	all, err := mounts()
	if err != nil {
		return "", err
	}
	for _, m := range slices.Backward(all) { // the newest mount hides the older
		if m.fstype == "cgroup2" && within(dir, m.point) {
			return filepath.Join(m.root, strings.TrimPrefix(dir, m.point)), nil
		}
	}
	return "", fmt.Errorf("%s is on no cgroup2 mount", dir)
}

func readInts(file string) ([]int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, word := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
		all = append(all, n)
	}
	return all, nil
}
