// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

const topLong = `Shows the servers that run on a terminal, again and again.

Keys:
  up, down, k, j, PgUp, PgDn, Home, End
                     choose a server
  Enter              its details and processes; Escape goes back
  c m a n p          sort by CPU, memory, age, name, number of processes; r
                     reverses
  /                  show only those with a text in id, name, client, state or
                     backend; Escape shows all again
  f                  freeze the chosen server, or thaw it
  s, then y          stop it, as mcpscope stop does
  ?                  these keys
  q, ^C              end

CPU% is the share of one CPU since the last refresh.`

type topFlags struct {
	filter
	interval time.Duration
}

func topCommand(io cli.Stdio) *cobra.Command {
	f := topFlags{interval: 2 * time.Second}
	c := command(spec{
		use: "top [flags]", short: "watch the servers that run",
		examples: `  mcpscope top
  sudo mcpscope top --all-users
`,
		long: topLong,
	}, func(operands []string) int { return f.run(io) })
	f.filter.set(c)
	c.Flags().Func("interval", "from one refresh to the next, at least 100ms (default 2s): `D`", func(s string) (err error) {
		if f.interval, err = protocol.ParseDuration(s); err == nil && f.interval < 100*time.Millisecond {
			err = errors.New("it is less than 100ms")
		}
		return err
	})
	return c
}

func (f *topFlags) run(io cli.Stdio) int {
	err := drawable()
	if err != nil {
		return io.CannotWithHint("show servers", err, "mcpscope ls")
	}
	all, err := f.read(nil, "")
	if err != nil && len(all) == 0 {
		return io.Cannot("list servers", err)
	}
	t := &top{topFlags: f, view: topView{all: all, users: f.allUsers, order: 'c'}, width: 80, height: 24}
	sig, err := t.show()
	closeReadings(t.view.all)
	switch {
	case sig != 0:
		return cli.EndBySignal(sig)
	case err != nil:
		return io.Cannot("show servers", err)
	}
	return cli.ExitOK
}

// drawable tells why there can be no full screen: it takes a terminal at both ends.
func drawable() error {
	for _, f := range []*os.File{os.Stdin, os.Stdout} {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
			return fmt.Errorf("%s is no terminal", map[*os.File]string{os.Stdin: "stdin", os.Stdout: "stdout"}[f])
		}
	}
	if term := os.Getenv("TERM"); term == "" || term == "dumb" {
		return fmt.Errorf("the terminal can't be drawn on (TERM=%s)", term)
	}
	return nil
}
