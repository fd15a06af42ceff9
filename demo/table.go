// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A table prints to a person's terminal, or plainly to anything else.
type table struct {
	out    *os.File
	colour bool
}

func newTable(out *os.File) *table {
	_, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS)
	return &table{out: out, colour: err == nil && os.Getenv("NO_COLOR") == ""}
}

const (
	red   = "31"
	green = "32"
	bold  = "1"
)

func (t *table) paint(colour, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// The columns fit 80; what is left has lines of its own.
const columns = "%-14s  %-11s %-14s  %-9s  %-13s  %s"

func (t *table) head() {
	fmt.Fprintf(t.out, "Published MCP servers, and what is left of them %v after their client has gone.\n", leftAfter)
	fmt.Fprint(t.out, "The package runner holds its child's stdin open, as uvx does.\n\n")
	head := fmt.Sprintf(columns, "client", "server-", "run by", "client", "bare", "with mcpscope")
	fmt.Fprintln(t.out, t.paint(bold, head))
}

func (t *table) row(s scenario, bare, contained outcome) {
	// Padded before it is painted: the escapes have no width.
	bareCell := t.paint(bare.hue(), fmt.Sprintf("%-13s", bare))
	fmt.Fprintf(t.out, columns+"\n", s.client, s.server, s.runner, s.end, bareCell, t.paint(contained.hue(), contained.String()))
	t.names("bare", bare)
	t.names("with mcpscope", contained)
}

// names lists what is left.
func (t *table) names(which string, o outcome) {
	for _, name := range o.left {
		fmt.Fprintf(t.out, "    %s: %s\n", which, name)
	}
}

func (t *table) foot(sum totals) {
	fmt.Fprintf(t.out, "\nbare:          %s\n", t.paint(sum.bare.hue(), sum.bare.summary()))
	fmt.Fprintf(t.out, "with mcpscope: %s\n", t.paint(sum.contained.hue(), sum.contained.summary()))
}

func (o outcome) String() string {
	if len(o.left) > 0 {
		return fmt.Sprintf("%d left, %d MB", len(o.left), megabytes(o.bytes))
	}
	return "0 in " + seconds(o.took)
}

func (o outcome) summary() string {
	if len(o.left) > 0 {
		return fmt.Sprintf("%d processes left, %d MB", len(o.left), megabytes(o.bytes))
	}
	return "nothing left, the slowest gone in " + seconds(o.took)
}

func (o outcome) hue() string {
	if len(o.left) > 0 {
		return red
	}
	return green
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func megabytes(bytes int) int { return (bytes + 500_000) / 1_000_000 }

// Totals are what the exit status is made from.
type totals struct {
	bare, contained outcome // took is the slowest
	missed          []string
}

func (sum *totals) add(s scenario, bare, contained outcome) {
	sum.bare.add(bare)
	sum.contained.add(contained)
	if s.leaks && len(bare.left) == 0 {
		sum.missed = append(sum.missed, s.String())
	}
}

func (o *outcome) add(other outcome) {
	o.left = append(o.left, other.left...)
	o.bytes += other.bytes
	o.took = max(o.took, other.took)
}

func (sum *totals) verdict() error {
	var err error
	if n := len(sum.contained.left); n > 0 {
		err = fmt.Errorf("%d processes were left with mcpscope", n)
	}
	for _, s := range sum.missed {
		err = errors.Join(err, fmt.Errorf("no leak to compare with: nothing was left bare of %s", s))
	}
	return err
}
