// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// canAsk tells whether there is a terminal to ask on.
func canAsk(io cli.Stdio) bool { return onTerminal(os.Stdin) && onTerminal(io.Out) }

// confirmed asks on a terminal; without one nobody can answer.
func confirmed(io cli.Stdio, question string) bool {
	if !canAsk(io) {
		return false
	}
	fmt.Fprintf(io.Out, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // no answer is one
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// unconfirmed says that a command has done nothing, and returns its status. line is the command for a script.
func unconfirmed(io cli.Stdio, goal, line string) int {
	return io.CannotWithHint(goal, errors.New("nobody has confirmed it"), line)
}
