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

// unescape undoes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

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

// directories are where a path of the cgroup2 hierarchy is seen.
func directories(path string) (found []string, err error) {
	all, err := mounts()
	for _, m := range all {
		if rel, below := strings.CutPrefix(path, strings.TrimSuffix(m.root, "/")); m.fstype == "cgroup2" && below {
			found = append(found, filepath.Join(m.point, rel))
		}
	}
	if len(found) == 0 && err == nil {
		err = fmt.Errorf("no cgroup2 mount shows %s", path)
	}
	return found, err
}

// Directory is where a path of the cgroup2 hierarchy is seen.
func Directory(path string) (string, error) {
	found, err := directories(path)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// OwnGroup returns the directory of this process's cgroup. A path alone can be another group (a private
// namespace with the host's mount), so it searches for its own pid in it.
func OwnGroup() (string, error) {
	path, err := ProcessPath(os.Getpid())
	if err != nil {
		return "", err
	}
	found, err := directories(path)
	for _, dir := range found {
		if pids, err := ReadInts(filepath.Join(dir, "cgroup.procs")); err == nil && slices.Contains(pids, os.Getpid()) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no cgroup2 mount shows this process in its group %s (%v)", path, err)
}

// place is the directory of the sandbox. Runs inside this run have their own places, and do not inherit the
// variable.
func place() (string, error) {
	if dir := os.Getenv(PlaceEnv); dir != "" {
		return dir, os.Unsetenv(PlaceEnv)
	}
	return OwnGroup()
}

// ReadInts reads the numbers of a file.
func ReadInts(file string) ([]int, error) {
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
