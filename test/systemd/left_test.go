// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// program is a process that does nothing, and looks like any other: this test binary with another command line.
type program struct {
	Argv   []string
	Dir    string
	Setsid bool
	Pipes  bool   // its stdin and stdout are pipes of the process above, which holds the other ends
	Listen string // "tcp", or the path of a socket
	Below  *program
}

const (
	// programEnv has the program that a process is, in JSON.
	programEnv = "TESTS_PROGRAM"
	// leaverEnv makes it the process that starts the program, and exits.
	leaverEnv = "TESTS_LEAVER"
	// readyFD gets the pids of a program and of those below it, each in a line.
	readyFD = 3
)

// becomeProgram does not return in a process that is one.
func becomeProgram() {
	text := os.Getenv(programEnv)
	if text == "" {
		return
	}
	var p program
	err := json.Unmarshal([]byte(text), &p)
	ready := os.NewFile(readyFD, "ready")
	if err == nil && os.Getenv(leaverEnv) != "" {
		err = p.start(ready)
	} else if err == nil {
		err = p.run(ready)
	}
	if err != nil {
		fmt.Fprintln(ready, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// start starts the program with our own descriptors.
func (p *program) start(ready *os.File) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = p.Argv
	cmd.Dir = p.Dir
	cmd.Env = []string{programEnv + "=" + string(text)}
	cmd.ExtraFiles = []*os.File{ready}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: p.Setsid}
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	if p.Pipes {
		var in, out [2]int // not os.File: those would be closed when nothing refers to them
		if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		cmd.Stdin = os.NewFile(uintptr(in[0]), "stdin")
		cmd.Stdout = os.NewFile(uintptr(out[1]), "stdout")
	}
	return cmd.Start()
}

func (p *program) run(ready *os.File) error {
	if p.Listen != "" {
		network, address := "unix", p.Listen
		if p.Listen == "tcp" {
			network, address = "tcp", "127.0.0.1:0"
		}
		listener, err := net.Listen(network, address)
		if err != nil {
			return err
		}
		defer listener.Close()
	}
	fmt.Fprintln(ready, os.Getpid())
	if p.Below != nil {
		if err := p.Below.start(ready); err != nil {
			return err
		}
	}
	if err := ready.Close(); err != nil {
		return err
	}
	for {
		_ = unix.Pause() // until a signal ends it
	}
}

// leave starts a program of a user, whose parent exits, with these descriptors. It returns the processes, the
// program itself first; they are killed with the test.
func (p *program) leave(t *testing.T, u host.User, stdin, stdout *os.File) []*escape.Process {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	cmd := host.Current(t).Command(u, "/proc/self/exe")
	cmd.Env = []string{programEnv + "=" + string(text), leaverEnv + "=1"}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdin = stdin
	cmd.Stdout = stdout
	err = cmd.Run()
	_ = theirs.Close() // nothing was written to it
	if err != nil {
		t.Fatalf("%q: %v", p.Argv, err)
	}
	var all []*escape.Process
	for lines := bufio.NewScanner(ready); lines.Scan(); {
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			t.Fatalf("%q: %s", p.Argv, lines.Text())
		}
		process, err := escape.OpenProcess(pid)
		if err != nil {
			t.Fatalf("%q: %v", p.Argv, err)
		}
		t.Cleanup(process.Close)
		t.Cleanup(func() { process.Signal(unix.SIGKILL) })
		all = append(all, process)
	}
	return all
}
