// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// OwnCommand is this command, and the process that has started it.
func OwnCommand() string {
	text := "mcpscope " + strings.Join(os.Args[1:], " ")
	if above := fleet.Ancestry(os.Getppid()); len(above) > 0 {
		text += fmt.Sprintf(", from %s[%d]", above[0].Comm, above[0].PID)
	}
	return text
}

// Do does one thing to the servers that are named, and returns the status of the command. do returns what is
// printed.
func (f *Filter) Do(names []string, io cli.Stdio, verb string, do func(*fleet.Listed) (string, error)) int {
	if len(names) == 0 {
		return io.Mistake(verb, "no server given: add a name or an id")
	}
	servers, err := f.Choose(names)
	if err != nil {
		return io.Cannot(verb, err)
	}
	defer Close(servers)
	return Each(servers, io, verb, do)
}

// Done returns a function for Each that prints one line per server.
func Done(past string, do func(*fleet.Listed) error) func(*fleet.Listed) (string, error) {
	return func(s *fleet.Listed) (string, error) {
		return fmt.Sprintf("%s %s (%s)", past, cli.OneLine(s.Name), s.ID), do(s)
	}
}

// Each does one thing to many servers at a time.
func Each(servers []*fleet.Listed, io cli.Stdio, verb string, do func(*fleet.Listed) (string, error)) int {
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		status = cli.ExitOK
	)
	for _, s := range servers {
		wg.Go(func() {
			text, err := do(s)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				for line := range strings.SplitSeq(text, "\n") {
					fmt.Fprintln(io.Out, cli.OneLine(line))
				}
				return
			}
			status = io.Cannot(fmt.Sprintf("%s %s (%s)", verb, cli.OneLine(s.Name), s.ID), err)
			if limit, ok := errors.AsType[*protocol.LimitError](err); ok {
				io.Hint(limit.Step)
			}
		})
	}
	wg.Wait()
	return status
}
