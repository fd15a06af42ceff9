// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/metrics"
	"github.com/mcpscope/mcpscope/internal/selection"
)

type metricsFlags struct {
	selection.Filter
	textfile string
	listen   string
}

func metricsCommand(io cli.Stdio) *cobra.Command {
	var f metricsFlags
	c := command(spec{
		use: "metrics [flags]", short: "print or serve metrics for Prometheus", also: "prometheus",
		examples: `  mcpscope metrics
  mcpscope metrics --all-users --listen 9500
  mcpscope metrics --textfile /var/lib/node_exporter/mcpscope.prom
`,
		long: `Print metrics of the running servers as OpenMetrics text.

For Prometheus, run mcpscope metrics --all-users --listen 9500 as a service of
root, and add to prometheus.yml:

  scrape_configs:
    - job_name: mcpscope
      static_configs: [{targets: ["127.0.0.1:9500"]}]`,
	}, func(operands []string) int { return f.run(io) })
	fs := c.Flags()
	allUsers(fs, &f.AllUsers)
	fs.StringVar(&f.textfile, "textfile", "",
		"replace the file `PATH` atomically, in Prometheus text format, "+
			"for the textfile collector of node_exporter")
	fs.Func("listen", "answer GET /metrics on `ADDR` until SIGTERM. ADDR is a port of 127.0.0.1 (9500), "+
		"or address:port",
		readBy(&f.listen, metrics.ListenAddress))
	return c
}

func (f *metricsFlags) run(io cli.Stdio) int {
	switch {
	case f.listen != "" && f.textfile != "":
		return io.Mistake("metrics", "--textfile and --listen exclude each other")
	case f.listen != "":
		return metrics.Serve(&f.Filter, f.listen, io)
	case f.textfile != "":
		if err := metrics.WriteFile(&f.Filter, f.textfile); err != nil {
			return io.Cannot("write metrics", err)
		}
		return cli.ExitOK
	}
	if err := metrics.Write(&f.Filter, io.Out); err != nil {
		return io.Cannot("list servers", err)
	}
	return cli.ExitOK
}
