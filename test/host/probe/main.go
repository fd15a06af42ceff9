// SPDX-License-Identifier: Apache-2.0

// Command probe runs on a poor host and says what it is like there: its argument is
// a question, its output the answer. It has no need of anything but the kernel.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() { fmt.Println(answer(strings.Fields(os.Args[1]))) }

func answer(words []string) string {
	switch words[0] {
	case "uid":
		return strconv.Itoa(os.Getuid())
	case "pid":
		return strconv.Itoa(os.Getpid())
	case "mkdir":
		return mkdir(words[1])
	case "fstype":
		return fstype(words[1])
	case "group":
		return group()
	case "connect":
		return connect(words[1])
	case "owner":
		return owner(words[1])
	case "stat":
		_, err := os.Stat(words[1])
		return word(err)
	case "call":
		return call(words[1])
	case "files":
		return files()
	case "processes":
		return processes()
	case "zombies":
		return zombies()
	case "no_new_privs":
		n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		return fmt.Sprintf("%d %s", n, word(err))
	case "env":
		value, ok := os.LookupEnv(words[1])
		return fmt.Sprintf("%q %v", value, ok)
	}
	return "no such question"
}

const (
	hierarchy = "/sys/fs/cgroup"
	patience  = 30 * time.Second
)

// word is an errno's name.
func word(err error) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func mkdir(dir string) string {
	if dir == "own" {
		path, err := ownPath()
		if err != nil {
			return err.Error()
		}
		dir = hierarchy + path
	}
	dir = filepath.Join(dir, "probe")
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		err = os.Remove(dir)
	}
	return word(err)
}

func fstype(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return word(err)
	}
	names := map[int64]string{unix.CGROUP2_SUPER_MAGIC: "cgroup2", unix.TMPFS_MAGIC: "tmpfs", unix.SYSFS_MAGIC: "sysfs"}
	return names[int64(st.Type)]
}

// ownPath is where the kernel says that we are.
func ownPath() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	_, path, _ := strings.Cut("\n"+string(text), "\n0::")
	return strings.TrimSpace(path), nil
}

// group says whether the path that the kernel tells leads to a group with us.
func group() string {
	path, err := ownPath()
	if err != nil {
		return word(err)
	}
	text, err := os.ReadFile(filepath.Join(hierarchy, path, "cgroup.procs"))
	if err != nil {
		return word(err)
	}
	in := slices.Contains(strings.Fields(string(text)), strconv.Itoa(os.Getpid()))
	return fmt.Sprintf("root=%v in=%v", path == "/", in)
}

// connect waits a little for an answer that a living bus would give at once.
func connect(path string) string {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return word(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond)) // sockets have deadlines
	if _, err := conn.Write([]byte("\x00AUTH EXTERNAL\r\n")); err != nil {
		return word(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Sprint("answered: ", err)
	}
	return "hangs"
}

func owner(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return word(err)
	}
	return strconv.Itoa(int(st.Uid))
}

// call makes calls whose arguments are wrong: EINVAL and EBADF mean that the
// kernel has looked at them.
func call(name string) string {
	args := map[string][3]uintptr{
		"clone3":            {unix.SYS_CLONE3, 0, 0},
		"pidfd_open":        {unix.SYS_PIDFD_OPEN, ^uintptr(0), 0},
		"pidfd_send_signal": {unix.SYS_PIDFD_SEND_SIGNAL, ^uintptr(0), 0},
		"close_range":       {unix.SYS_CLOSE_RANGE, 6, 5},
	}[name]
	_, _, errno := unix.Syscall(args[0], args[1], args[2], 0)
	return unix.ErrnoName(errno)
}

func files() string {
	for n := 0; ; n++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return fmt.Sprint(n < 8, " ", word(err))
		}
	}
}

func processes() string {
	var started []*exec.Cmd
	defer func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill() // they sleep
			_ = cmd.Wait()         // killed
		}
	}()
	for range 40 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			return word(err)
		}
		started = append(started, cmd)
	}
	return "ok"
}

// zombies counts the dead children of PID 1, before and after one more.
func zombies() string {
	before := countZombies()
	// The shell leaves its child to PID 1, and tells when that is done.
	if err := exec.Command("sh", "-c", "true & exec true").Run(); err != nil {
		return err.Error()
	}
	after := before
	for deadline := time.Now().Add(patience); after == before && time.Now().Before(deadline); {
		after = countZombies() // the orphan may be dying still
	}
	return fmt.Sprint(before, " ", after)
}

func countZombies() int {
	n := 0
	found, _ := filepath.Glob("/proc/[0-9]*/stat") // a valid pattern
	for _, file := range found {
		text, _ := os.ReadFile(file) // it may be gone
		_, after, _ := strings.Cut(string(text), ") ")
		if strings.HasPrefix(after, "Z 1 ") {
			n++
		}
	}
	return n
}
