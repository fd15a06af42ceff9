// SPDX-License-Identifier: Apache-2.0

// Command picture draws the dashboard for docs/reference/metrics.md. picture -queries prints the expressions of its
// panels. Otherwise it reads the answer of promtool query range to each of them, a line of JSON each, and prints SVG.
package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const dashboard = "docs/reference/prometheus/dashboard.json"

type panel struct {
	Title       string
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ Expr, LegendFormat string }
}

// series is an answer of Prometheus: pairs of a time and a number in a string.
type series struct {
	Metric map[string]string
	Values [][2]any
	legend string
}

const (
	columns, width, height, gap = 2, 400, 200, 12
	left, top, plotHeight       = 58, 34, 90
	step                        = 10 // seconds between two samples, as record asks for them
)

var colors = []string{"#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#5794f2", "#ba43a9", "#b877d9"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run() error {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		return err
	}
	var d struct{ Panels []panel }
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	answers := json.NewDecoder(os.Stdin)
	var b strings.Builder
	rows := (len(d.Panels) + columns - 1) / columns
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-sans-serif,Helvetica,Arial,sans-serif" `+
		`font-size="11" fill="#b9c1cf">`+"\n<!-- make dashboard -->\n<title>The dashboard of mcpscope: %d panels for five minutes of some servers</title>\n", columns*(width+gap)-gap, rows*(height+gap)-gap, len(d.Panels))
	for i, p := range d.Panels {
		var all []series
		for _, target := range p.Targets {
			expr := strings.ReplaceAll(target.Expr, "$instance", ".*")
			if slices.Contains(os.Args, "-queries") {
				fmt.Println(expr)
				continue
			}
			var answer []series
			if err := answers.Decode(&answer); err != nil {
				return fmt.Errorf("%s: %w", target.Expr, err)
			}
			for _, s := range answer {
				s.legend = label.ReplaceAllStringFunc(target.LegendFormat, func(name string) string { return s.Metric[strings.Trim(name, "{}")] })
				all = append(all, s)
			}
		}
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%columns*(width+gap), i/columns*(height+gap))
		p.draw(&b, all)
		fmt.Fprintln(&b, "</g>")
	}
	if !slices.Contains(os.Args, "-queries") {
		_, err = io.WriteString(os.Stdout, b.String()+"</svg>\n")
	}
	return err
}

var label = regexp.MustCompile(`{{\w+}}`)

// first and last are the bounds of the time axis, which all panels share.
var first, last float64

func (p panel) draw(b *strings.Builder, all []series) {
	fmt.Fprintf(b, `<rect width="%d" height="%d" rx="6" fill="#1b1f27"/><text x="12" y="20" fill="#fff" font-weight="bold">%s</text>`+"\n",
		width, height, html.EscapeString(p.Title))
	most := 0.0
	for _, s := range all {
		for _, v := range s.Values {
			at, n := number(v)
			most = max(most, n)
			if first == 0 {
				first = at
			}
			first = min(first, at)
			last = max(last, at)
		}
	}
	most = ceiling(most, p.FieldConfig.Defaults.Unit)
	for i := range 3 {
		y := top + plotHeight*i/2
		fmt.Fprintf(b, `<path d="M%d %dH%d" stroke="#353b47"/><text x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			left, y, width-12, left-6, y+4, unit(most*float64(2-i)/2, p.FieldConfig.Defaults.Unit))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%.0f min</text>`+"\n",
		left, top+plotHeight+14, width-12, top+plotHeight+14, (last-first)/60)
	x := 12
	y := top + plotHeight + 32
	for i, s := range all {
		color := colors[i%len(colors)]
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-linejoin="round"/>`+"\n", line(s, most), color)
		if wide := 24 + 13*len(s.legend)/2; x+wide > width && x > 12 {
			x = 12
			y = y + 16
		}
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="10" height="3" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y-5, color, x+14, y, html.EscapeString(s.legend))
		x += 28 + 13*len(s.legend)/2
	}
}

// line leaves out points between equal ones, and has a gap where samples are missing.
func line(s series, most float64) string {
	var path strings.Builder
	before := math.Inf(-1)
	height := -1
	for i, v := range s.Values {
		at, n := number(v)
		x := left + int((at-first)/(last-first)*(width-12-left))
		y := top + plotHeight - int(math.Round(n/most*plotHeight))
		following := -1
		if i+1 < len(s.Values) {
			if then, n := number(s.Values[i+1]); then-at < 2*step {
				following = top + plotHeight - int(math.Round(n/most*plotHeight))
			}
		}
		switch {
		case at-before >= 2*step:
			fmt.Fprintf(&path, "M%d %dh1", x, y)
		case y != height || y != following:
			fmt.Fprintf(&path, "L%d %d", x, y)
		}
		before = at
		height = y
	}
	return path.String()
}

func number(v [2]any) (at, n float64) {
	at, _ = v[0].(float64)
	text, _ := v[1].(string)
	n, _ = strconv.ParseFloat(text, 64) // Prometheus prints nothing else
	return at, n
}

// ceiling is the top of an axis: a round number.
func ceiling(most float64, of string) float64 {
	base := 1.0
	for of == "bytes" && most/base > 1000 {
		base *= 1 << 10
	}
	if of == "percentunit" {
		base = 0.01
	}
	for scale := base; ; scale *= 10 {
		for _, n := range []float64{1, 2, 4, 6, 8} {
			if n*scale >= most {
				return max(n*scale, 2*base)
			}
		}
	}
}

func unit(n float64, of string) string {
	switch of {
	case "bytes":
		return strconv.FormatFloat(n/(1<<20), 'g', 4, 64) + " MiB"
	case "percentunit":
		return strconv.FormatFloat(100*n, 'g', 4, 64) + "%"
	}
	return strconv.FormatFloat(n, 'g', 4, 64)
}
