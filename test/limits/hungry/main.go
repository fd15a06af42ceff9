// SPDX-License-Identifier: Apache-2.0

// Command hungry is an agent with MCP servers that take memory on request.
//
// As `hungry agent NAME…` it starts a server of each name, as hungry-NAME, and reads lines: "NAME MB" has a
// server take so much memory, and "self MB" itself.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		agent(os.Args[2:])
		return
	}
	serve()
}

// taken keeps what was taken.
var taken [][]byte

func take(megabytes int) {
	memory := make([]byte, megabytes<<20)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	taken = append(taken, memory)
}

func serve() {
	fmt.Println("up")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var megabytes int
		if n, _ := fmt.Sscan(lines.Text(), &megabytes); n == 1 {
			take(megabytes)
		}
		fmt.Println("has", megabytes)
	}
}

func agent(names []string) {
	own, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	servers := map[string]*server{}
	for _, name := range names {
		servers[name] = start(own, "hungry-"+name)
	}
	fmt.Println("up", os.Getpid())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var name string
		var megabytes int
		if n, _ := fmt.Sscan(lines.Text(), &name, &megabytes); n != 2 {
			continue
		}
		s := servers[name]
		if s == nil {
			take(megabytes)
			fmt.Println("self has", megabytes)
			continue
		}
		fmt.Fprintln(s.in, megabytes)
		fmt.Println(name, s.line())
	}
}

type server struct {
	in  *os.File
	out *bufio.Scanner
}

// line is the answer of the server, or says that it has ended.
func (s *server) line() string {
	if !s.out.Scan() {
		return "died"
	}
	return s.out.Text()
}

func start(path, name string) *server {
	theirIn, in, errIn := os.Pipe()
	out, theirOut, errOut := os.Pipe()
	if errIn != nil || errOut != nil {
		fmt.Println(errIn, errOut)
		os.Exit(1)
	}
	cmd := exec.Command(path)
	cmd.Args[0] = name
	cmd.Stdin = theirIn
	cmd.Stdout = theirOut
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = theirIn.Close()  // it has it
	_ = theirOut.Close() // as above
	s := &server{in: in, out: bufio.NewScanner(out)}
	s.line() // it is up
	go func() { _ = cmd.Wait() }()
	return s
}
