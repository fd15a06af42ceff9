// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"math"
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
)

// A value that JSON does not have is an error, and not an empty output with status 0.
func TestPrintJSON(t *testing.T) {
	value := map[string]float64{"cpu": 1}
	number := func(stdio cli.Stdio) int { return printJSON(stdio, "list servers", value) }
	wantSaid(t, "a number", printed(number), said{out: "{\n  \"cpu\": 1\n}\n"})
	line := func(stdio cli.Stdio) int { return printJSONLine(stdio, "list servers", value) }
	wantSaid(t, "a line", printed(line), said{out: "{\"cpu\":1}\n"})
	noNumber := func(stdio cli.Stdio) int { return printJSON(stdio, "list servers", math.NaN()) }
	wantSaid(t, "no number", printed(noNumber), failure("list servers: json: unsupported value: NaN", ""))
}

// A device that is full is an error.
func TestPrintJSONToAFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	got := printed(func(stdio cli.Stdio) int {
		stdio.Out = full
		checked, end := stdio.Checked()
		return end(printJSON(checked, "list servers", render.ListOf([]render.Server{})))
	})
	wantSaid(t, "/dev/full", got, failure("print: write /dev/full: no space left on device", ""))
}
