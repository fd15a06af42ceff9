// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
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

// What a gateway knows of its servers is a ledger of pids, which are those of their process groups as
// well: who was a child after the start, and was none before.
var ledger = map[string]int{}

// abandoned are servers of jobs that were cancelled or have crashed, for the next sweep.
var abandoned []string

// children are those of all threads.
func children() []int {
	var all []int
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is valid
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread that has ended has none
		for _, word := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(word) // the kernel writes numbers
			all = append(all, pid)
		}
	}
	return all
}

// enter finds out who was started. A start is over when the program runs, so nobody else is new.
func enter(name string, before []int) {
	for _, pid := range children() {
		if !slices.Contains(before, pid) {
			ledger[name] = pid
		}
	}
}

// cancel is the end of a job that nobody waits for: its pipes are closed, and that is all. After a
// crash something still has them.
func cancel(name string, crashed bool) {
	abandoned = append(abandoned, name)
	if !crashed {
		_ = servers[name].in.Close()
		_ = servers[name].raw.Close()
	}
}

// sweep ends what jobs have left: SIGTERM to the process group, and SIGKILL after 2 s if its leader
// lives. Nobody has waited for the leader, so the number is its own until then.
func sweep() {
	for _, name := range abandoned {
		killpg(name)
	}
	fmt.Println("swept", len(abandoned))
	abandoned = nil
}

func killpg(name string) {
	s, pgid := servers[name], ledger[name]
	if pgid != s.cmd.Process.Pid {
		fmt.Println("failed", name, "is", s.cmd.Process.Pid, "and in the ledger", pgid)
		return
	}
	exited := make(chan struct{})
	_ = syscall.Kill(-pgid, syscall.SIGTERM) // it may have ended
	go func() {
		// without reaping, which would set the number free
		_ = unix.Waitid(unix.P_PID, pgid, nil, unix.WEXITED|unix.WNOWAIT, nil) // it is a child of ours
		close(exited)
	}()
	select {
	case <-exited:
	case <-time.After(2 * time.Second):
		_ = syscall.Kill(-pgid, syscall.SIGKILL)
	}
	_ = s.cmd.Wait() // how it ended is nobody's business
}

// scan counts who looks like a gateway, by the command line, as some do before they start.
func scan() {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range lines {
		text, _ := os.ReadFile(file) // it may have ended
		words := strings.Split(string(text), "\x00")
		for i, word := range words[:max(len(words)-2, 0)] {
			if filepath.Base(word) == "like" && words[i+1] == "gateway" && words[i+2] == "run" {
				found = append(found, filepath.Base(filepath.Dir(file)))
			}
		}
	}
	fmt.Println("scanned", slices.Contains(found, strconv.Itoa(os.Getpid())), len(found))
}

// mainPID asks the manager whether it is us whom it takes for the service.
func mainPID(systemctl []string) {
	out, err := exec.Command(systemctl[0], systemctl[1:]...).Output()
	fmt.Println("main", strings.TrimSpace(string(out)) == strconv.Itoa(os.Getpid()), err)
}
