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

// errUnconfirmed is what a command ends with that was to ask, and got no yes.
var errUnconfirmed = errors.New("nobody has confirmed it")

// confirm asks on a terminal; without one nobody can answer.
func confirm(io cli.Stdio, question string) error {
	if !onTerminal(os.Stdin) || !onTerminal(io.Out) {
		return errUnconfirmed
	}
	fmt.Fprintf(io.Out, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // no answer is one
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errUnconfirmed
}

// unconfirmed says that a command has done nothing, and returns its status. line is the command for a script.
func unconfirmed(io cli.Stdio, goal, line string) int {
	status := io.Cannot(goal, errUnconfirmed)
	io.Hint(line)
	return status
}
