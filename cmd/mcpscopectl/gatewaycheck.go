// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
)

// check runs the gateway for a moment, as it would run, and says what was taken. All that it has
// started ends with it.
func (v *gatewayRun) check(args []string) int {
	line := slices.Insert(withoutCheck(args), 0, "mcpscope", "gateway", "--contain-gateway")
	cmd, err := os.StartProcess("/proc/self/exe", line, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stderr, os.Stderr}})
	if err != nil {
		return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot start the gateway: %v", err), "")
	}
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := cmd.Wait() // it is our child
		ended <- state
	}()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGINT, unix.SIGTERM)
	var last gw.Status
	state := followGateway(cmd.Pid, v.CheckFor, ended, asked, &last)
	if state == nil {
		_ = cmd.Signal(unix.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(v.Policy.TermGrace + time.Second):
			_ = cmd.Kill() // as above
			<-ended
		}
	} else if last.PID == 0 {
		return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("the gateway ended before anything could be seen: %s", state), "")
	}
	return v.printCheck(last)
}

// followGateway reads what is known of it until its time is over. It returns nil while the gateway lives.
func followGateway(pid int, within time.Duration, ended <-chan *os.ProcessState, asked <-chan os.Signal, last *gw.Status) *os.ProcessState {
	over := time.After(within)
	for {
		if s, found := statusOfGateway(pid); found {
			*last = s
		}
		select {
		case state := <-ended:
			return state
		case <-over:
			return nil
		case <-asked:
			return nil
		case <-time.After(100 * time.Millisecond): // nothing tells of a change
		}
	}
}

func statusOfGateway(pid int) (gw.Status, bool) {
	all, _ := gw.List(os.Getuid()) // none, without /proc
	i := slices.IndexFunc(all, func(s gw.Status) bool { return s.PID == pid })
	if i < 0 {
		return gw.Status{}, false
	}
	return all[i], true
}

// withoutCheck are the arguments without the flags that ask for it, which stand before the command.
func withoutCheck(args []string) []string {
	var rest []string
	for i := 0; i < len(args); i++ {
		name, _, assigned := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case args[i] == "--":
			return append(rest, args[i:]...)
		case !strings.HasPrefix(args[i], "-") || name != "check" && name != "check-for":
			rest = append(rest, args[i])
		case name == "check-for" && !assigned:
			i++
		}
	}
	return rest
}

func (v *gatewayRun) printCheck(s gw.Status) int {
	buffered := bufio.NewWriter(v.Out)
	defer buffered.Flush()
	w := tabwriter.NewWriter(buffered, 0, 0, 2, ' ', 0)
	for _, t := range s.Taken {
		fmt.Fprintf(w, "%s\tserver\t%s\n", cli.OneLine(fit(t.Name, 32)), cli.OneLine(t.Reason))
	}
	for _, l := range s.Left {
		fmt.Fprintf(w, "%s\tleft\t%s, %s\n", cli.OneLine(fit(l.Program, 32)), cli.OneLine(l.Reason), times(l.Count))
	}
	_ = w.Flush() // whoever reads has gone
	for _, why := range s.Weaker {
		fmt.Fprintf(buffered, "weaker: %s\n", cli.OneLine(why))
	}
	if len(s.Taken) == 0 {
		fmt.Fprintln(buffered, "no MCP server was found")
		return cli.ExitFailure
	}
	return cli.ExitOK
}
