// SPDX-License-Identifier: Apache-2.0

// Command agent is on a terminal as agents are: in raw mode it draws each key. Some keys have it do what agents
// do, and it draws that this is done. A message on its stdin is no key, so all it does begins with one.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

// daemonName is argument 0 of the daemon that an agent starts, of its own program.
const daemonName = "daemon"

func main() {
	if os.Args[0] == daemonName {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the agent has ended
		return
	}
	a := &agent{address: os.Args[1], server: os.Args[2:]}
	a.begin()
	a.draw("ready")
	go a.drawSizes()
	key := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(key); err != nil {
			os.Exit(0) // as the terminal was closed
		}
		a.press(key[0])
	}
}

// agent has what its keys have begun.
type agent struct {
	address string   // of a listener outside
	server  []string // the command of a server
	cooked  unix.Termios
	opened  []io.Closer
	task    *exec.Cmd
	input   io.Writer // of the server
	answers io.Reader
}

func (a *agent) press(key byte) {
	switch key {
	case 'q':
		a.end()
		os.Exit(7)
	case 'c' & 0x1f:
		a.draw("interrupted")
	case 'z' & 0x1f:
		a.leave()
	case 'o':
		a.open(net.Dial("tcp", a.address))
	case 'l':
		a.open(net.Listen("tcp", "127.0.0.1:0"))
	case 'i':
		a.openInterface()
	case 'f':
		a.lock()
	case 'u':
		for _, opened := range a.opened {
			check(opened.Close())
		}
		a.opened = nil
		a.draw("closed")
	case 't':
		a.start(exec.Command("sleep", "infinity"))
	case 'd':
		daemon := exec.Command(os.Args[0], os.Args[1:]...)
		daemon.Args[0] = daemonName
		daemon.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		pipe, err := daemon.StdinPipe() // it waits for a key
		check(err)
		a.opened = append(a.opened, pipe)
		a.start(daemon)
	case 'e':
		check(a.task.Process.Kill())
		_ = a.task.Wait() // killed
		a.draw("ended")
	case 's':
		a.startServer()
	case 'm':
		a.call()
	default:
		a.draw("key " + string(key))
	}
}

func (a *agent) begin() {
	mode, err := unix.IoctlGetTermios(0, unix.TCGETS)
	check(err)
	a.cooked = *mode
	a.setRaw()
}

// setRaw is cfmakeraw(3).
func (a *agent) setRaw() {
	raw := a.cooked
	raw.Iflag &^= unix.ICRNL | unix.IXON | unix.ISTRIP | unix.INLCR
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG | unix.IEXTEN
	check(unix.IoctlSetTermios(0, unix.TCSETS, &raw))
}

func (a *agent) end() { check(unix.IoctlSetTermios(0, unix.TCSETS, &a.cooked)) }

// leave stops the job, as an agent does at ^Z.
func (a *agent) leave() {
	a.draw("leaves")
	a.end()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	check(unix.Kill(0, unix.SIGTSTP))
	<-continued
	a.setRaw()
	a.draw("returns")
}

func (a *agent) drawSizes() {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	for range resized {
		size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		check(err)
		a.draw(fmt.Sprintf("size %d %d", size.Row, size.Col))
	}
}

func (a *agent) open(opened io.Closer, err error) {
	check(err)
	a.opened = append(a.opened, opened)
	a.draw("opened")
}

// openInterface connects the agent with itself.
func (a *agent) openInterface() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	outgoing, err := net.Dial("tcp", listener.Addr().String())
	check(err)
	incoming, err := listener.Accept()
	check(err)
	a.opened = append(a.opened, outgoing, incoming)
	a.open(listener, nil)
}

// lock holds an exclusive lock until it is closed.
func (a *agent) lock() {
	file, err := os.CreateTemp("", "lock")
	check(err)
	check(unix.Flock(int(file.Fd()), unix.LOCK_EX))
	a.open(file, os.Remove(file.Name()))
}

func (a *agent) start(task *exec.Cmd) {
	a.task = task
	check(task.Start())
	a.draw("started")
}

func (a *agent) startServer() {
	server := exec.Command(a.server[0], a.server[1:]...)
	input, err := server.StdinPipe()
	check(err)
	answers, err := server.StdoutPipe()
	check(err)
	a.input = input
	a.answers = answers
	a.start(server)
}

// call has the server answer.
func (a *agent) call() {
	_, err := fmt.Fprintln(a.input, "message")
	check(err)
	answer := make([]byte, 100)
	n, err := a.answers.Read(answer)
	check(err)
	a.draw("answer " + strings.TrimSpace(string(answer[:n])))
}

func (a *agent) draw(text string) {
	_, err := fmt.Print(text, "\r\n")
	check(err)
}

func check(err error) {
	if err != nil {
		fmt.Fprint(os.Stderr, "agent: ", err, "\r\n")
		os.Exit(1)
	}
}
