// SPDX-License-Identifier: Apache-2.0

// Command like is a gateway as those in Python are: each server gets a session of its own, its
// stdin and stdout are pipes, and it is talked to in lines. It does what its own stdin says,
// and prints what came of it.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coreos/go-systemd/v22/daemon"
)

type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	raw *os.File // what out reads from
	// theirs are the ends that a child has.
	theirs []*os.File
}

var (
	sockets bool // children get sockets, not pipes
	servers = map[string]*server{}
	// abandoned are servers of jobs that were cancelled or have crashed, for the next sweep.
	abandoned []string
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	cgroup, _ := os.ReadFile("/proc/self/cgroup") // an error shows as ""
	_, path, _ := strings.Cut(string(cgroup), "0::")
	fmt.Printf("up %d %d %s\n", os.Getpid(), os.Getppid(), strings.TrimSpace(path))
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		fmt.Println("not ready", err)
	}
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
		close(lines)
	}()
	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGTERM {
				drain()
			}
			fmt.Println("signal", sig)
		case line, open := <-lines:
			if !open {
				lines = nil // a service has no stdin, and a test may have exited
				continue
			}
			do(strings.Fields(line))
		}
	}
}

func do(words []string) {
	switch words[0] {
	case "server":
		start(words[1], words[2:]...)
		hello(words[1])
	case "quiet": // hello follows later
		start(words[1], words[2:]...)
	case "hello":
		hello(words[1])
	case "many": // at once, by name and number
		many(words[1], words[2], words[3:])
	case "all":
		fmt.Println("all", askAll())
	case "ask":
		fmt.Println("answer", words[1], ask(words[1]))
	case "close":
		_ = servers[words[1]].in.Close()
	case "session": // a program that outlives us, with files as its stdin and stdout
		fmt.Println("session", session(words[1], words[2], words[3:]))
	case "listen", "inherit": // a server without stdin, or with ours
		cmd := exec.Command(words[1], words[2:]...)
		if words[0] == "inherit" {
			cmd.Stdin = os.Stdin
		}
		err := cmd.Start()
		fmt.Println(words[0], cmd.Process.Pid, err)
	case "sockets": // as clients on Node have them, from now on
		sockets = true
		fmt.Println("sockets", sockets)
	case "cancel", "crash":
		cancel(words[1], words[0] == "crash")
	case "sweep":
		sweep()
	case "tool": // what it leaves running is wanted
		out, err := exec.Command("/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!").Output()
		fmt.Println("tool", strings.TrimSpace(string(out)), err)
	case "worker": // a tool leaves what goes on executing programs
		out, err := exec.Command("/bin/sh", "-c", "(while /bin/sleep 0.1; do echo >>"+words[1]+"; done) >/dev/null 2>&1 & echo $!").Output()
		fmt.Println("worker", strings.TrimSpace(string(out)), err)
	case "shell": // a tool's shell has a server's pipes
		s := start(words[1], "/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
		pid, err := s.out.ReadString('\n')
		fmt.Println("shell", strings.TrimSpace(pid), err, s.cmd.Wait())
	case "hold": // a tool that has got a server's stdin and stdout
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.ExtraFiles = []*os.File{servers[words[1]].in.(*os.File), servers[words[1]].raw}
		err := cmd.Start()
		fmt.Println("hold", cmd.Process.Pid, err)
	case "written": // a program that reads the contents of a file
		fmt.Println("written", written(words[1], words[2:]))
	case "times":
		times(words[1], words[2:])
	case "eat": // memory, until the kernel kills us
		for size := 1 << 20; ; size *= 2 {
			_ = bytes.Repeat([]byte{1}, size)
		}
	case "exit":
		status, _ := strconv.Atoi(words[1]) // a test's own
		os.Exit(status)
	}
}

// connect makes the child's stdin and stdout.
func (s *server) connect() error {
	if !sockets {
		in, err := s.cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := s.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		s.in = in
		s.out = bufio.NewReader(out)
		s.raw, _ = out.(*os.File) // which it is
		return nil
	}
	var ours [2]*os.File
	for i := range ours {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err == nil {
			err = unix.SetNonblock(fds[1], false) // the child's
		}
		if err != nil {
			return err
		}
		ours[i] = os.NewFile(uintptr(fds[0]), "socket")
		s.theirs = append(s.theirs, os.NewFile(uintptr(fds[1]), "socket"))
	}
	s.cmd.Stdin = s.theirs[0]
	s.cmd.Stdout = s.theirs[1]
	s.in = ours[0]
	s.raw = ours[1]
	s.out = bufio.NewReader(ours[1])
	return nil
}

// session starts a program in a session of its own. It returns its pid, or an error.
func session(stdin, stdout string, argv []string) string {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := os.OpenFile(stdin, os.O_RDWR, 0) // a FIFO's open does not wait for the other end then
	if err != nil {
		return err.Error()
	}
	defer in.Close()
	out, err := os.OpenFile(stdout, os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	cmd.Stdin = in
	cmd.Stdout = out
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	return strconv.Itoa(cmd.Process.Pid)
}

func start(name string, argv ...string) *server {
	s, err := begin(name, argv)
	if err != nil {
		fmt.Println("failed", name, err)
		return s
	}
	fmt.Println("server", name, s.cmd.Process.Pid)
	return s
}

func begin(name string, argv []string) (*server, error) {
	s := &server{cmd: exec.Command(argv[0], argv[1:]...)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := s.connect()
	if err == nil {
		err = s.cmd.Start()
	}
	for _, f := range s.theirs {
		f.Close()
	}
	if err == nil {
		servers[name] = s
	}
	return s, err
}

// many starts servers that say back what they read, and asks each once. It says how many are in a group, and
// why one does not answer.
func many(name, count string, argv []string) {
	n, _ := strconv.Atoi(count) // a test's own
	contained := 0
	failed := ""
	for i := range n {
		if _, err := begin(fmt.Sprint(name, i), argv); err != nil {
			fmt.Println("many", 0, err)
			return
		}
	}
	for i := range n {
		if got := ask(fmt.Sprint(name, i)); got != "ping" {
			failed = got
		}
		if servers[fmt.Sprint(name, i)].contained() {
			contained++
		}
	}
	fmt.Println("many", contained, failed)
}

// askAll asks all servers. It says how many there are, how many of these answer and are in a group, and why
// one does not answer.
func askAll() string {
	answer := 0
	contained := 0
	failed := ""
	for name, s := range servers {
		if got := ask(name); got == "ping" {
			answer++
		} else {
			failed = got
		}
		if s.contained() {
			contained++
		}
	}
	return strings.TrimSpace(fmt.Sprintln(len(servers), answer, contained, failed))
}

func (s *server) contained() bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.cmd.Process.Pid)) // none, if it has ended
	return bytes.Contains(text, []byte("/mcp-"))
}

// initialize is MCP's first message. A server of the zoo's echoes it.
const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"like","version":"1"}}}` + "\n"

// initialized is a client's message after the answer.
const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"

func hello(name string) {
	s := servers[name]
	if s == nil {
		return
	}
	_, _ = io.WriteString(s.in, initialize) // it may have ended: ask reports that
	go func() {
		conn, err := s.raw.SyscallConn()
		if err != nil {
			return
		}
		_ = conn.Read(func(fd uintptr) bool { // it fails when the server is abandoned
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0
		})
		_, _ = io.WriteString(s.in, initialized) // as above
	}()
}

func ask(name string) string {
	s := servers[name]
	if _, err := io.WriteString(s.in, "ping\n"); err != nil {
		return err.Error()
	}
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		if !strings.HasPrefix(line, "{") { // what it says back
			return strings.TrimSpace(line)
		}
	}
}

// drain uses its servers once more before it ends.
func drain() {
	for name := range servers {
		fmt.Println("drained", name, ask(name))
	}
	os.Exit(0)
}

// cancel abandons a job: it closes the pipes, but does not wait. After a
// crash something still has them.
func cancel(name string, crashed bool) {
	abandoned = append(abandoned, name)
	if !crashed {
		_ = servers[name].in.Close()
		_ = servers[name].raw.Close()
	}
}

// sweep ends the left-overs of jobs, by process group. The leader was not reaped, so the number is its own.
func sweep() {
	for _, name := range abandoned {
		_ = syscall.Kill(-servers[name].cmd.Process.Pid, syscall.SIGTERM) // it may have ended
		_ = servers[name].cmd.Wait()                                      // any status will do
	}
	fmt.Println("swept", len(abandoned))
	abandoned = nil
}

// written runs a command to its end, with the file as its input. Its stdin stays open.
func written(file string, argv []string) error {
	said, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s := &server{cmd: exec.Command(argv[0], argv[1:]...)}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for _, f := range s.theirs {
		f.Close()
	}
	defer s.raw.Close()
	defer s.in.Close()
	_, _ = s.in.Write(said)           // it may have ended
	_, _ = io.Copy(io.Discard, s.out) // until it ends
	return s.cmd.Wait()
}

// times runs a command again and again, and counts how often that failed.
func times(count string, argv []string) {
	n, _ := strconv.Atoi(count) // a test's own
	failures := 0
	last := error(nil)
	for range n {
		if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
			failures = failures + 1
			last = err
		}
	}
	fmt.Println("times", failures, last)
}
