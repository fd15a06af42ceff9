// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// canAsk tells whether there is a terminal to ask on.
func CanAsk(io Stdio) bool { return OnTerminal(os.Stdin) && OnTerminal(io.Out) }

// confirmed asks on a terminal; without one nobody can answer.
func Confirmed(io Stdio, question string) bool {
	if !CanAsk(io) {
		return false
	}
	fmt.Fprintf(io.Out, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // no answer is one
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// unconfirmed says that a command has done nothing, and returns its status. line is the command for a script.
func Unconfirmed(io Stdio, goal, line string) int {
	return io.CannotWithHint(goal, errors.New("nobody has confirmed it"), line)
}

// onTerminal tells whether a person reads what is printed.
func OnTerminal(out io.Writer) bool {
	f := File(out)
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// sayNone says on a terminal that there is nothing to print; elsewhere no output is what a script expects.
func None(out io.Writer, text string) {
	if OnTerminal(out) {
		fmt.Fprintln(out, OneLine(text))
	}
}

// widthOf is how many cells a line may have: 0, if out is no terminal, or one that does not know its size.
func WidthOf(out io.Writer) int {
	f := File(out)
	if f == nil {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
