// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file is the one place that keeps the surroundings of the machine away from tests: its variables, limits, home,
// accounts, and what is installed there.

// knownNames and knownPrefixes are of the variables that tests, the go tool and downloads read. All others are the
// machine's own.
var (
	knownNames = []string{
		"PATH", "CI", "TEST_CACHE", "MCPSCOPE", "NODE_MODULES",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
		"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
	}
	knownPrefixes = []string{"GO", "CGO_", "TESTS_", "ESCAPE_", "BED_", "TESTHOST_", "VM_"}
)

// environment is the environment for tests with a directory of makeTemp: the known variables of another one. The
// caches of the go tool stay where they are.
func environment(machine []string, temp string) []string {
	env := slices.DeleteFunc(slices.Clone(machine), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		isKnown := slices.Contains(knownNames, name) ||
			slices.ContainsFunc(knownPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		return !isKnown
	})
	env = append(env, goPlaces(machine)...)
	return append(env, "HOME="+homeIn(temp), "TMPDIR="+temp, "LANG=C.UTF-8",
		// The checkout may belong to the user who has called sudo: git refuses it otherwise, and go build with it.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
}

// goPlaces are the variables that name what the go tool has in the home of its user. There are none in a machine
// without Go.
func goPlaces(machine []string) []string {
	names := []string{"GOENV", "GOPATH", "GOCACHE", "GOMODCACHE"}
	cmd := exec.Command("go", append([]string{"env"}, names...)...)
	cmd.Env = machine
	out, err := cmd.Output()
	values := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(values) != len(names) {
		return nil
	}
	var env []string
	for i, name := range names {
		if values[i] != "" {
			env = append(env, name+"="+values[i])
		}
	}
	return env
}

// files is the limit of descriptors for tests: one that watches 2,000 members holds 2,000 pidfds.
const files = 65536

// resetProcess makes the umask and the limits of this process, and of its children, those that tests expect. A hard
// limit that is lower stays.
func resetProcess() error {
	unix.Umask(0o022)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	limit.Max = min(limit.Max, files)
	limit.Cur = limit.Max
	// Only the function of package syscall also keeps Go from restoring the old limit for children.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("set RLIMIT_NOFILE to %d: %w", limit.Max, err)
	}
	var processes unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &processes); err != nil {
		return fmt.Errorf("read RLIMIT_NPROC: %w", err)
	}
	processes.Cur = processes.Max
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &processes); err != nil {
		return fmt.Errorf("set RLIMIT_NPROC to %d: %w", processes.Max, err)
	}
	return nil
}

// InstalledEnv has the path of an installed mcpscope. Where it is set, tests see what is installed, and run that.
const InstalledEnv = "TESTS_INSTALLED"

// packagePatterns match the files that a package of mcpscope installs.
var packagePatterns = []string{
	"usr/lib/systemd/*/*mcpscope*", "lib/systemd/*/*mcpscope*", "usr/bin/mcpscope*", "usr/libexec/mcpscope",
}

// machinePatterns match the files of an mcpscope that a person has installed, and the configurations of the
// administrator for mcpscope and for its clients.
var machinePatterns = []string{
	"etc/mcpscope", "etc/claude-code", "etc/codex", "etc/gemini-cli", "etc/qwen-code",
	"etc/systemd/*/*mcpscope*", "etc/systemd/*/*.service.d/*mcpscope*",
	"usr/local/lib/systemd/*/*mcpscope*", "usr/local/bin/mcpscope*", "usr/local/libexec/mcpscope",
}

// Installed returns the files below root that tests must not see.
func Installed(root string) []string {
	patterns := machinePatterns
	if os.Getenv(InstalledEnv) == "" {
		patterns = slices.Concat(machinePatterns, packagePatterns)
	}
	var found []string
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(filepath.Join(root, pattern)) // the patterns are valid
		found = append(found, paths...)
	}
	return found
}

// hideInstalled mounts something over all that Installed returns: an empty directory over a directory, and over the
// directory of a file a view in which the file is removed. No view is over /etc itself: in a container, files there
// are mounts, which a view would hide.
func hideInstalled() error {
	// /proc is a directory that each machine has, and that is needed only afterwards.
	const layers = "/proc"
	if err := unix.Mount("tmpfs", layers, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", layers, err)
	}
	covered := make(map[string]bool)
	for _, path := range Installed("/") {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if err := unix.Mount("tmpfs", path, "tmpfs", 0, "mode=755"); err != nil {
				return fmt.Errorf("hide %s: %w", path, err)
			}
			continue
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return err
		}
		if !covered[dir] {
			covered[dir] = true
			if err := cover(dir, filepath.Join(layers, fmt.Sprint(len(covered)))); err != nil {
				return err
			}
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // /lib can be a link to /usr/lib
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return unix.Unmount(layers, unix.MNT_DETACH)
}

// cover mounts a writable view of a directory over it.
func cover(dir, layers string) error {
	upper := filepath.Join(layers, "upper")
	work := filepath.Join(layers, "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay at %s: %w", dir, err)
	}
	return nil
}

// persons matches the lines of passwd(5) for accounts of persons, from uid 1000 on. 65534 is nobody.
var persons = regexp.MustCompile(`(?m)^[^:\n]*:[^:\n]*:[1-9][0-9]{3,}:.*\n`)

// rootsHome matches the line of root up to its home directory, and its shell.
var rootsHome = regexp.MustCompile(`(?m)^(root:[^:\n]*:0:[^:\n]*:[^:\n]*:)[^:\n]*(:.*)$`)

// Accounts is the text of passwd(5) without the persons of the machine, and with another home of root.
func Accounts(passwd, home string) string {
	passwd = persons.ReplaceAllStringFunc(passwd, func(line string) string {
		if strings.Split(line, ":")[2] == "65534" {
			return line
		}
		return ""
	})
	return rootsHome.ReplaceAllString(passwd, "${1}"+home+"${2}")
}

// temporary is where the temporary directories of tests are, wherever TMPDIR of the machine is: the path is short
// enough for sockets, and all users may enter it.
const temporary = "/tmp"

// makeTemp makes a place for temporary files that can be removed even when the tests were killed. All users may enter
// it: some tests run as another user.
func makeTemp(prefix string) (string, error) {
	temp, err := os.MkdirTemp(temporary, prefix)
	if err != nil {
		return "", err
	}
	return temp, os.Chmod(temp, 0o755)
}

// furnish makes the home in a directory of makeTemp, and hides what is installed, and the accounts. As root it needs a
// mount namespace of its own; another user can hide nothing.
func furnish(temp string) error {
	if os.Geteuid() != 0 {
		return os.Mkdir(homeIn(temp), 0o700)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(temp, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", temp, err)
	}
	if fs.Flags&unix.ST_NOEXEC != 0 { // tests execute what they have built
		if err := unix.Mount("tmpfs", temp, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount a tmpfs at %s: %w", temp, err)
		}
	}
	return errors.Join(os.Mkdir(homeIn(temp), 0o700), hideInstalled(), hideAccounts(temp))
}

// homeIn is the home in a directory of makeTemp.
func homeIn(temp string) string { return filepath.Join(temp, "home") }

// hideAccounts covers /etc/passwd, in which a program without HOME finds its home.
func hideAccounts(temp string) error {
	const passwd = "/etc/passwd"
	text, err := os.ReadFile(passwd)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	own := filepath.Join(temp, "passwd")
	if err := os.WriteFile(own, []byte(Accounts(string(text), homeIn(temp))), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(own, passwd, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", own, passwd, err)
	}
	return nil
}
