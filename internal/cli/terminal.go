// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/text"
)

// Counted returns a number and a noun.
func Counted[N int | uint64](n N, noun string) string { return text.Counted(n, noun) }

// CanAsk reports whether stdin and stdout are a terminal.
func (s Stdio) CanAsk() bool { return OnTerminal(os.Stdin) && OnTerminal(s.Out) }

// Confirmed asks on a terminal, and returns false without one.
func (s Stdio) Confirmed(question string) bool {
	if !s.CanAsk() {
		return false
	}
	fmt.Fprintf(s.Out, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // "" is a no
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// Unconfirmed reports that a command did nothing, and returns its status. line is the command for a script. A
// person who has answered no needs none.
func (s Stdio) Unconfirmed(goal, line string) int {
	if s.CanAsk() {
		fmt.Fprintln(s.Out, "nothing was done")
		return ExitFailure
	}
	return s.CannotWithHint(goal, errors.New("not confirmed"), line)
}

// None prints an empty result on a terminal; elsewhere, scripts expect no output.
func (s Stdio) None(text string) {
	if OnTerminal(s.Out) {
		fmt.Fprintln(s.Out, OneLine(text))
	}
}

// OnTerminal reports whether out is a terminal.
func OnTerminal(out io.Writer) bool {
	f := File(out)
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// WidthOf returns the number of columns of a terminal. It is 0 if out is no terminal, or if its size is
// unknown.
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
