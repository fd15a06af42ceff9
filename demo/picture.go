// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A panel counts the processes of an agent's servers that still run.
type panel struct {
	Processes int
	Bytes     int
	Names     map[string]int
	Seconds   float64 // since the agent was killed
}

type picture struct{ Without, With panel }

func (p panel) megabytes() int { return (p.Bytes + 500_000) / 1_000_000 }

func (p panel) total() string {
	if p.Processes == 0 {
		return "0 processes"
	}
	return fmt.Sprintf("%d processes, %d MB", p.Processes, p.megabytes())
}

// lines are those above the total.
func (p panel) lines(title, start string) []string {
	lines := []string{title, "", "$ my-agent &   # " + start, "$ kill -9 $!", "still running:"}
	for _, name := range slices.Sorted(maps.Keys(p.Names)) {
		lines = append(lines, fmt.Sprintf("%4d %s", p.Names[name], name))
	}
	return lines
}

func (p picture) columns() (without, with []string) {
	without = p.Without.lines("without mcpscope", "11 MCP servers")
	with = p.With.lines("with mcpscope", "the same 11, wrapped")
	height := max(len(without), len(with)) + 1
	for len(without) < height {
		without = append(without, "")
	}
	for len(with) < height {
		with = append(with, "")
	}
	return without, with
}

func (p panel) when() string {
	if p.Processes == 0 {
		return fmt.Sprintf("none left after %.1f s", p.Seconds)
	}
	return fmt.Sprintf("left after %.0f s", p.Seconds)
}

const (
	red   = "#ff6b6b"
	green = "#69db7c"
)

func (p panel) color() string {
	if p.Processes > 0 {
		return red
	}
	return green
}

func (p picture) print(out io.Writer, color bool) {
	const width = 36
	paint := func(p panel, text string) string {
		text = fmt.Sprintf("%-*s", width, text) // padded first: the escapes have no width
		if color {
			text = map[string]string{red: "\x1b[1;31m", green: "\x1b[1;32m"}[p.color()] + text + "\x1b[0m"
		}
		return text
	}
	without, with := p.columns()
	var b strings.Builder
	for i := range without {
		fmt.Fprintf(&b, "%-*s   %s\n", width, without[i], with[i])
	}
	fmt.Fprintf(&b, "%s   %s\n", paint(p.Without, p.Without.total()), paint(p.With, p.With.total()))
	fmt.Fprintf(&b, "%-*s   %s\n\n", width, p.Without.when(), p.With.when())
	fmt.Fprint(out, b.String())
}

// svg is the picture of the README. Its comment has the figures, so that a test can draw it again.
func (p picture) svg() []byte {
	const width, lineHeight, margin, top = 400, 19, 20, 40
	without, with := p.columns()
	height := len(without)*lineHeight + top + 70
	figures, _ := json.Marshal(p) // a struct of numbers
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14">
<!-- make session: %s -->
<title>The same agent is killed: without mcpscope %s are left, with mcpscope %s.</title>
`, 2*width+margin, height, figures, p.Without.total(), p.With.total())
	for column, lines := range [][]string{without, with} {
		panel := []panel{p.Without, p.With}[column]
		x := column * (width + margin)
		fmt.Fprintf(&b, `<rect x="%d" width="%d" height="%d" rx="8" fill="#1b1f27"/>`+"\n", x, width, height)
		for i, line := range lines {
			fill := "#b9c1cf"
			weight := ""
			if i == 0 {
				fill = panel.color()
				weight = ` font-weight="bold" font-size="17"`
			}
			if line != "" {
				fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s"%s xml:space="preserve">%s</text>`+"\n",
					x+margin, top+i*lineHeight, fill, weight, html.EscapeString(line))
			}
		}
		y := top + len(lines)*lineHeight
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" font-weight="bold" font-size="27">%s</text>`+"\n",
			x+margin, y+12, panel.color(), panel.total())
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#b9c1cf">%s</text>`+"\n", x+margin, y+40, panel.when())
	}
	return []byte(b.String() + "</svg>\n")
}

func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("NO_COLOR") == ""
}
