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

// Counted is a number with what it counts.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// CanAsk tells whether there is a terminal to ask on.
func (s Stdio) CanAsk() bool { return OnTerminal(os.Stdin) && OnTerminal(s.Out) }

// Confirmed asks on a terminal, and is false without one.
func (s Stdio) Confirmed(question string) bool {
	if !s.CanAsk() {
		return false
	}
	fmt.Fprintf(s.Out, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // "" is a no
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// Unconfirmed reports that a command has done nothing, and returns its status. line is the command for a script.
func (s Stdio) Unconfirmed(goal, line string) int {
	return s.CannotWithHint(goal, errors.New("not confirmed"), line)
}

// None says on a terminal that there is nothing to print; elsewhere no output is what a script expects.
func (s Stdio) None(text string) {
	if OnTerminal(s.Out) {
		fmt.Fprintln(s.Out, OneLine(text))
	}
}

// OnTerminal tells whether a person reads what is printed.
func OnTerminal(out io.Writer) bool {
	f := File(out)
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// WidthOf is how many cells a line may have: 0, if out is no terminal, or one that does not know its size.
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
