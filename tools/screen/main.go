// SPDX-License-Identifier: Apache-2.0

// Command screen draws a terminal for the documents. It reads a screen, as tmux capture-pane -e prints it, and prints
// SVG. Its argument is the title.
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Lengths are in pixels.
const (
	cellWidth  = 8.4
	lineHeight = 19
	margin     = 16
	fontSize   = 14
)

const (
	background = "#1b1f27"
	foreground = "#b9c1cf"
)

// palette has the colors that top uses, by their parameter.
var palette = map[int]string{33: "#eab839", 34: "#5794f2", 36: "#6ed0e0"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tmux capture-pane -e -p | screen TITLE")
		os.Exit(2)
	}
	var lines []string
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		lines = append(lines, input.Text())
	}
	if err := input.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "screen:", err)
		os.Exit(1)
	}
	draw(os.Stdout, os.Args[1], lines)
}

// style is how the next cells look.
type style struct {
	color          string
	bold, reversed bool
}

func draw(out io.Writer, title string, lines []string) {
	cells := 0
	for _, line := range lines {
		cells = max(cells, ansi.StringWidth(line))
	}
	width := float64(cells)*cellWidth + 2*margin
	height := len(lines)*lineHeight + 2*margin
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d"`, width, height)
	fmt.Fprintf(out, ` font-family="ui-monospace,Menlo,Consolas,monospace" font-size="%d">`+"\n", fontSize)
	fmt.Fprintf(out, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(out, `<rect width="%.0f" height="%d" rx="8" fill="%s"/>`+"\n", width, height, background)
	current := style{color: foreground}
	for i, line := range lines {
		drawLine(out, line, margin+i*lineHeight, &current)
	}
	fmt.Fprintln(out, "</svg>")
}

// drawLine draws a line whose upper edge is at top. The style goes on in the next line.
func drawLine(out io.Writer, line string, top int, current *style) {
	parser := ansi.NewParser()
	state := byte(0)
	column := 0
	run := "" // cells of one style
	flush := func() {
		drawRun(out, run, column, top, *current)
		column += ansi.StringWidth(run)
		run = ""
	}
	for line != "" {
		sequence, cells, length, next := ansi.DecodeSequence(line, state, parser)
		if cells > 0 {
			run += sequence
		} else if ansi.Cmd(parser.Command()).Final() == 'm' {
			flush()
			current.apply(parser.Params())
		}
		line = line[length:]
		state = next
	}
	flush()
}

// apply changes the style by the parameters of one SGR sequence. The shortest reset has no parameter.
func (s *style) apply(parameters ansi.Params) {
	if len(parameters) == 0 {
		*s = style{color: foreground}
	}
	for _, parameter := range parameters {
		switch p := parameter.Param(0); p {
		case 0:
			*s = style{color: foreground}
		case 1:
			s.bold = true
		case 7:
			s.reversed = true
		case 39:
			s.color = foreground
		default:
			if color, known := palette[p]; known {
				s.color = color
			}
		}
	}
}

func drawRun(out io.Writer, run string, column, top int, s style) {
	if run == "" {
		return
	}
	x := margin + float64(column)*cellWidth
	width := float64(ansi.StringWidth(run)) * cellWidth
	color := s.color
	if s.reversed {
		color = background
		fmt.Fprintf(out, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x, top, width, lineHeight, s.color)
	}
	if strings.TrimSpace(run) == "" {
		return
	}
	weight := ""
	if s.bold {
		weight = ` font-weight="bold"`
	}
	// textLength keeps columns below each other with any font
	fmt.Fprintf(out, `<text x="%.1f" y="%d" textLength="%.1f" fill="%s"%s xml:space="preserve">%s</text>`+"\n",
		x, top+fontSize, width, color, weight, html.EscapeString(run))
}
