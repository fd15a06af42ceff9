// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const sandboxPrefix = "mcpscope-test."

// A sandbox is the directory that a run owns. Only the outer process has the
// open file description that holds the lock, so a free lock means that it is
// gone, whatever its pid is used for now.
type sandbox struct {
	dir  string
	fd   int
	temp string // TMPDIR of all that runs inside
}

// newSandbox removes what killed runs have left, then makes a group of our own.
func newSandbox() (*sandbox, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("these tests need root: they make control groups, namespaces and mounts")
	}
	own, err := place()
	if err != nil {
		return nil, fmt.Errorf("these tests need a writable cgroup2 hierarchy: %w", err)
	}
	if err := removeStale(own); err != nil {
		return nil, err
	}
	for range 100 {
		box, err := makeLocked(filepath.Join(own, fmt.Sprint(sandboxPrefix, rand.Uint32())))
		if box != nil || err != nil {
			return box, err
		}
	}
	return nil, fmt.Errorf("another run keeps removing the sandboxes in %s", own)
}

// makeLocked returns nil without an error when another run's removeStale met the
// directory between mkdir and flock and took it for a stale one.
func makeLocked(dir string) (*sandbox, error) {
	if err := unix.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("these tests need to make control groups: create %s: %w", dir, err)
	}
	fd, err := lock(dir)
	if fd < 0 || err != nil {
		return nil, err
	}
	if !same(fd, dir) {
		return nil, unix.Close(fd)
	}
	return &sandbox{dir: dir, fd: fd}, nil
}

// lock returns -1 when another process has the lock, or the directory no longer exists.
func lock(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", dir, err)
	}
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return fd, nil
	}
	unix.Close(fd)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return -1, nil
	}
	return -1, fmt.Errorf("lock %s: %w", dir, err)
}

// same reports whether dir is still the directory that fd has open.
func same(fd int, dir string) bool {
	var opened, named unix.Stat_t
	return unix.Fstat(fd, &opened) == nil && unix.Stat(dir, &named) == nil && opened.Ino == named.Ino
}

// removeStale ends the sandboxes whose outer process was killed.
func removeStale(own string) error {
	found, err := filepath.Glob(filepath.Join(own, sandboxPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range found {
		fd, err := lock(dir)
		if err != nil {
			return err
		}
		if fd < 0 {
			continue // a run that lives
		}
		err = errors.Join(Destroy(dir), removeTemp(dir))
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("cannot end what an earlier run left: %w", err)
		}
	}
	return nil
}

// removeTemp removes the temporary directories of the sandbox at dir. No other process
// has them as long as we have the sandbox locked.
func removeTemp(dir string) error {
	found, err := filepath.Glob(filepath.Join(temporary, filepath.Base(dir)+".*"))
	for _, temp := range found {
		err = errors.Join(err, os.RemoveAll(temp))
	}
	return err
}

// Runner is a group that the tests themselves may be in, where controllers are handed down to the groups
// beside it.
const Runner = "runner"

// leftovers describes each process and each group that the tests left, one line
// each. The slice directories that the product shares between its groups stay on
// purpose, as long as nothing is in them.
func (s *sandbox) leftovers() ([]string, error) {
	var lines []string
	all, err := pids(s.dir)
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		lines = append(lines, Describe(pid))
	}
	groups, err := dirs(s.dir)
	if err != nil {
		return nil, err
	}
	for _, dir := range groups[1:] {
		if rel := strings.TrimPrefix(dir, s.dir+"/"); rel != Runner && !SharedSlice(rel) {
			lines = append(lines, "group "+rel)
		}
	}
	return lines, nil
}

// SharedSlice recognises mcp.slice, mcp.slice/<uid>, and the leaf in it that
// guards go to when they remove their own group.
func SharedSlice(rel string) bool {
	for _, pattern := range []string{"mcp.slice", "mcp.slice/[0-9]*", "mcp.slice/[0-9]*/guards"} {
		if matched, err := filepath.Match(pattern, rel); matched && err == nil {
			return true
		}
	}
	return false
}

// Describe describes a process, for a list of left-over ones.
func Describe(pid int) string {
	comm := readLine(pid, "comm")
	cmdline := strings.Join(strings.Split(strings.TrimRight(readLine(pid, "cmdline"), "\x00"), "\x00"), " ")
	path, err := ProcessPath(pid)
	if err != nil {
		path = err.Error()
	}
	return fmt.Sprintf("pid %d (%s) %q in %s", pid, comm, cmdline, path)
}

// readLine is for a listing only: a process that ends meanwhile shows as empty.
func readLine(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	return strings.TrimSpace(string(text))
}
