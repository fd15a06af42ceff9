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
	"time"

	"golang.org/x/sys/unix"
)

type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	raw *os.File // what out reads from
	// theirs are the ends that a child has.
	theirs []*os.File
	said   chan string // lines on stderr, until its end
}

var sockets bool

// stderr is where servers have it: "" is nowhere, "stdout", or "pipe".
var stderr string

// listen reads what a server says on stderr.
func (s *server) listen() error {
	if stderr == "stdout" {
		s.cmd.Stderr = s.cmd.Stdout
	}
	if stderr != "pipe" {
		return nil
	}
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	s.said = make(chan string, 16)
	go func() {
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			s.said <- lines.Text()
		}
		close(s.said)
	}()
	return nil
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
		s.in, s.out = in, bufio.NewReader(out)
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
	s.cmd.Stdin, s.cmd.Stdout = s.theirs[0], s.theirs[1]
	s.in, s.raw, s.out = ours[0], ours[1], bufio.NewReader(ours[1])
	return nil
}

var servers = map[string]*server{}

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	fmt.Printf("up %d %d %d %s\n", os.Getpid(), os.Getppid(), sid, cgroup())
	if os.Getenv("NOTIFY_SOCKET") != "" {
		if err := tell("READY=1"); err != nil {
			fmt.Println("not ready", err)
		}
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
				lines = nil // a service has no stdin, and a test may have gone
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
	case "listen": // a server that is not spoken to on stdin
		cmd := exec.Command(words[1], words[2:]...)
		err := cmd.Start()
		fmt.Println("listen", cmd.Process.Pid, err)
	case "sockets": // as clients on Node have them, from now on
		sockets = true
		fmt.Println("sockets", sockets)
	case "stderr": // of servers, from now on
		stderr = words[1]
		fmt.Println("stderr", stderr)
	case "said": // the next line on stderr, or its end
		line, open := <-servers[words[1]].said
		fmt.Println("said", words[1], open, line)
	case "heard": // whether there is such a line, or the end
		select {
		case line, open := <-servers[words[1]].said:
			fmt.Println("heard", words[1], open, line)
		default:
			fmt.Println("heard", words[1], "nothing")
		}
	case "rest": // of a server's stdout
		text, err := io.ReadAll(servers[words[1]].out)
		fmt.Printf("rest %s %q %v\n", words[1], text, err)
	case "quiet": // it is spoken to later
		start(words[1], words[2:]...)
	case "hello":
		hello(words[1])
		fmt.Println("hello", words[1])
	case "ask":
		fmt.Println("answer", words[1], ask(words[1]))
	case "close":
		_ = servers[words[1]].in.Close()
	case "cancel", "crash":
		cancel(words[1], words[0] == "crash")
	case "killpg":
		killpg(words[1])
	case "sweep":
		sweep()
	case "scan":
		scan()
	case "mainpid":
		mainPID(words[1:])
	case "tool": // what it leaves running is wanted
		out, err := exec.Command("/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!").Output()
		fmt.Println("tool", strings.TrimSpace(string(out)), err)
	case "worker": // a tool leaves what goes on executing programs
		out, err := exec.Command("/bin/sh", "-c", "(while /bin/sleep 0.1; do echo >>"+words[1]+"; done) >/dev/null 2>&1 & echo $!").Output()
		fmt.Println("worker", strings.TrimSpace(string(out)), err)
	case "shell": // a tool's shell looks like a server, but for what it runs
		s := start(words[1], "/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
		pid, err := s.out.ReadString('\n')
		fmt.Println("shell", strings.TrimSpace(pid), err, s.cmd.Wait())
	case "hold": // a tool that has got a server's stdin and stdout
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.ExtraFiles = []*os.File{servers[words[1]].in.(*os.File), servers[words[1]].raw}
		err := cmd.Start()
		fmt.Println("hold", cmd.Process.Pid, err)
	case "many": // programs that are written to what a file has
		fmt.Println("many", many(words[1], words[2], words[3:]))
	case "times":
		times(words[1], words[2:])
	case "eat": // memory, until somebody kills us
		for size := 1 << 20; ; size *= 2 {
			_ = bytes.Repeat([]byte{1}, size)
		}
	case "exit":
		status, _ := strconv.Atoi(words[1]) // a test's own
		os.Exit(status)
	}
}

func start(name string, argv ...string) *server {
	s := &server{cmd: exec.Command(argv[0], argv[1:]...)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := s.connect()
	if err == nil {
		err = s.listen()
	}
	before := children()
	if err == nil {
		err = s.cmd.Start()
	}
	for _, f := range s.theirs {
		f.Close()
	}
	if err != nil {
		fmt.Println("failed", name, err)
		return s
	}
	servers[name] = s
	enter(name, before)
	fmt.Println("server", name, s.cmd.Process.Pid)
	return s
}

// initialize is what makes it MCP. A server of the zoo's says it back.
const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"like","version":"1"}}}` + "\n"

// initialized is what a client says when it has the answer.
const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"

func hello(name string) {
	s := servers[name]
	if s == nil {
		return
	}
	_, _ = io.WriteString(s.in, initialize) // it may have ended: ask tells
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

// drain uses its servers once more before it ends; one may be deaf.
func drain() {
	for name := range servers {
		answer := make(chan string, 1)
		go func() { answer <- ask(name) }()
		select {
		case text := <-answer:
			fmt.Println("drained", name, text)
		case <-time.After(time.Second):
			fmt.Println("drained", name, "no answer")
		}
	}
	os.Exit(0)
}

// many runs a command again and again, with pipes. A word that begins with "@" is a file's content.
func many(count, file string, argv []string) error {
	n, _ := strconv.Atoi(count) // a test's own
	said, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for i, word := range argv {
		if name, ok := strings.CutPrefix(word, "@"); ok {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			argv[i] = string(text)
		}
	}
	for range n {
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
		_, _ = s.in.Write(said)           // it may have ended
		_, _ = io.Copy(io.Discard, s.out) // as above
		_ = s.cmd.Wait()                  // grep finds nothing
		s.in.Close()
		s.raw.Close()
	}
	return nil
}

// times runs a command again and again.
func times(count string, argv []string) {
	n, _ := strconv.Atoi(count) // a test's own
	var failed error
	failures := 0
	begin := time.Now()
	for range n {
		if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
			failures, failed = failures+1, err
		}
	}
	fmt.Println("times", time.Since(begin).Nanoseconds(), failures, failed)
}

// tell tells systemd something, as sd_notify(3) does.
func tell(text string) error {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Sendto(fd, []byte(text), 0, &syscall.SockaddrUnix{Name: os.Getenv("NOTIFY_SOCKET")})
}

func cgroup() string {
	text, _ := os.ReadFile("/proc/self/cgroup") // "" tells as well
	_, path, _ := strings.Cut(string(text), "0::")
	return strings.TrimSpace(path)
}
