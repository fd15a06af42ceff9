// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// An agent is a client on the TypeScript SDK with several servers. All processes
// that descend from it carry its mark at the end of their PATH: the SDK passes few variables on.
type agent struct {
	client *exec.Cmd
	mark   string
	prefix string // of lines
	in     io.WriteCloser
	out    *bufio.Reader
	lines  []string

	answered atomic.Int32
}

func startAgent(clients string, index int, prefix string, lines []string) (*agent, error) {
	a := &agent{client: exec.Command(filepath.Join(clients, "bin", "tsgateway")), prefix: prefix, lines: slices.Clone(lines)}
	for i := range a.lines {
		a.lines[i] = prefix + a.lines[i]
	}
	a.mark = fmt.Sprintf(":/mcpscope-demo/%d/%d", os.Getpid(), index)
	a.client.Dir = filepath.Join(clients, "node")
	a.client.Env = append(os.Environ(), "PATH="+filepath.Join(clients, "bin")+":"+os.Getenv("PATH")+a.mark)
	a.client.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := a.client.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if a.in, err = a.client.StdinPipe(); err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	return a, a.client.Start()
}

// request sends a line and waits for one that begins with want.
func (a *agent) request(line, want string) error {
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		return err
	}
	for {
		answer, err := a.out.ReadString('\n')
		if err != nil || strings.HasPrefix(answer, "failed ") {
			return fmt.Errorf("%s: the agent wrote %q: %w", line, answer, err)
		}
		if strings.HasPrefix(answer, want) {
			return nil
		}
	}
}

// awaitAnswers starts the servers of all agents, and prints how many have answered.
func awaitAnswers(ctx context.Context, agents []*agent) error {
	count := 0
	done := make(chan error, len(agents))
	for _, a := range agents {
		count += len(a.lines)
		go func() {
			for i, line := range a.lines {
				if err := a.request(fmt.Sprintf("server %d %s", i, line), "server "); err != nil {
					done <- err
					return
				}
				a.answered.Add(1)
			}
			done <- nil
		}()
	}
	end := "\n"
	pause := 10 * time.Second
	if isTerminal(os.Stderr) {
		end = "\r"
		pause = time.Second
		defer fmt.Fprintln(os.Stderr)
	}
	for waiting, shown := len(agents), -1; waiting > 0; {
		select {
		case err := <-done:
			if waiting--; err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		answered := 0
		for _, a := range agents {
			answered += int(a.answered.Load())
		}
		if answered != shown {
			fmt.Fprintf(os.Stderr, "demo: %d of %d servers have answered%s", answered, count, end)
			shown = answered
		}
	}
	return nil
}

// kill sends SIGKILL to the client alone.
func (a *agent) kill() {
	_ = a.client.Process.Kill() // it can have ended
	_ = a.client.Wait()         // killed
}

// processes lists those that carry the mark, without the client. A process that has
// exited has no environment.
func (a *agent) processes() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && pid != a.client.Process.Pid && a.marked(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (a *agent) marked(pid int) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && strings.Contains(string(environ), a.mark+"\x00")
}

// left counts the processes for a panel.
func (a *agent) left(after time.Duration) panel {
	p := panel{Seconds: after.Seconds(), Names: map[string]int{}}
	for _, pid := range a.processes() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has exited
		}
		words := bytes.Split(line, []byte{0})
		name := filepath.Base(string(words[0]))
		if name == "node" && len(words) > 1 {
			name = filepath.Base(string(words[1]))
		}
		if name == "uvxlike" {
			name = "package runner, like uvx"
		}
		p.Names[name]++
		p.Processes++
		p.Bytes += pss(pid)
	}
	return p
}

// pss is a process's memory, with its share of the pages that several processes map.
func pss(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) // none of a process that has exited
	_, rest, _ := strings.Cut(string(text), "\nPss:")
	var kilobytes int
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes << 10
}

// end kills the client and all marked processes by their pidfds. mcpscope gets time to end its servers, and to
// remove their groups.
func (a *agent) end() error {
	a.kill()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		pids := a.processes()
		if len(pids) == 0 {
			return nil
		}
		if time.Since(began) > giveUp {
			return fmt.Errorf("processes %v survived SIGKILL", pids)
		}
		if a.prefix != "" && time.Since(began) < giveUp/2 {
			continue
		}
		for _, pid := range pids {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue // it has exited
			}
			if a.marked(pid) {
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it has exited
			}
			_ = unix.Close(fd)
		}
	}
}

// idleServers counts the client's frozen servers.
func idleServers(tool string, client int) (count int) {
	text, _ := exec.Command(tool, "ls", "--json", "--client", strconv.Itoa(client)).Output()
	var list struct{ Servers []struct{ State string } }
	_ = json.Unmarshal(text, &list) // asked again
	for _, s := range list.Servers {
		if s.State == "idle" {
			count++
		}
	}
	return count
}
