// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package bench compares mcpscope with a bare start, with other tools and with the least
// that the kernel allows, side by side in one run. It needs a real systemd, so it runs
// in a booted host (test/host), and only when go test is asked for benchmarks. It
// measures and asserts nothing: a table says which aims were missed.
package bench

import (
	"flag"
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

func TestMain(m *testing.M) {
	host.Stage()
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run()) // the arithmetic alone needs no host
	}
	o := host.Options{Users: true, Build: build}
	if file := os.Getenv(JSONEnv); file != "" {
		o.Writable = []string{file}
	}
	host.Main(m, o)
}

// build makes mcpscope as `make build` does.
func build(dir string) error {
	return escape.Build(dir, map[string][]string{
		"mcpscope":    escape.Go("-trimpath", "-ldflags=-s -w", "../../cmd/mcpscope"),
		"mcpscopectl": escape.Go("-trimpath", "-ldflags=-s -w", "../../cmd/mcpscopectl"),
		"wrapper":     escape.Go("-ldflags=-s -w", "./wrapper"),
		"server":      escape.CC("server/server.c"),
		"floor":       escape.CC("floor/floor.c"),
		"crowd":       escape.CC("crowd/crowd.c"),
		"twowrites":   escape.CC("twowrites/twowrites.c"),
		"walk":        escape.CC("walk/walk.c"),
	})
}

func BenchmarkSideBySide(b *testing.B) {
	host.Current(b)
	machine, err := thisMachine()
	must(b, err)
	report := &Report{Version: 1, Machine: machine}
	// The crowds come last: the load that they make stays in the averages for minutes.
	for _, part := range []struct {
		name    string
		measure func(*testing.B) []Section
	}{{"start", startSections}, {"data", dataSections}, {"death", deathSections}, {"idle", idleSections}, {"list", listSections}, {"top", topSections}, {"kill", killSections}} {
		b.Run(part.name, func(b *testing.B) { // so that -bench SideBySide/list measures one alone
			must(b, report.Machine.noteLoad())
			report.Sections = append(report.Sections, part.measure(b)...)
			b.ReportMetric(0, "ns/op") // what it took says nothing
		})
	}
	must(b, report.print(os.Stdout))
	if file := os.Getenv(JSONEnv); file != "" {
		must(b, report.save(file))
	}
}
