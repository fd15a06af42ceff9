// SPDX-License-Identifier: Apache-2.0

//go:build linux

package selection

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// ourCommand is this command, and who has started it.
func OwnCommand() string {
	text := "mcpscope " + strings.Join(os.Args[1:], " ")
	if above := fleet.Ancestry(os.Getppid()); len(above) > 0 {
		text += fmt.Sprintf(", from %s[%d]", above[0].Name, above[0].PID)
	}
	return text
}

// onEach does one thing to many servers at a time, and says how it went.
func Each(servers []*fleet.Listed, io cli.Stdio, verb, past string, do func(*fleet.Listed) error) int {
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		status = cli.ExitOK
	)
	for _, s := range servers {
		wg.Go(func() {
			err := do(s)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				status = io.Cannot(fmt.Sprintf("%s %s (%s)", verb, cli.OneLine(s.Name), s.ID), err)
				return
			}
			if past != "" {
				fmt.Fprintf(io.Out, "%s %s (%s)\n", past, cli.OneLine(s.Name), s.ID)
			}
		})
	}
	wg.Wait()
	return status
}
