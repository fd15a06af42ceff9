// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/metrics"
	"github.com/mcpscope/mcpscope/internal/selection"
)

type metricsFlags struct {
	servers  selection.Selection
	textfile string
	listen   string
}

func metricsCommand(stdio cli.Stdio) *cobra.Command {
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
	}, func(operands []string) int { return f.run(stdio) })
	fs := c.Flags()
	allUsers(fs, &f.servers)
	fs.StringVar(&f.textfile, "textfile", "",
		"replace the file `PATH` atomically, in Prometheus text format, "+
			"for the textfile collector of node_exporter")
	fs.Func("listen", "answer GET /metrics on `ADDR` until SIGTERM. ADDR is a port of 127.0.0.1 (9500), "+
		"or address:port",
		readBy(&f.listen, metrics.ListenAddress))
	return c
}

func (f *metricsFlags) run(stdio cli.Stdio) int {
	if f.listen != "" && f.textfile != "" {
		return stdio.Mistake("metrics", "--textfile and --listen exclude each other")
	}
	if err := f.servers.Users().CheckVisible(); err != nil {
		return stdio.Cannot("list servers", err)
	}
	noteOthers(&f.servers, stdio, "metrics")
	switch {
	case f.listen != "":
		return f.serve(stdio)
	case f.textfile != "":
		if err := metrics.WriteFile(&f.servers, f.textfile); err != nil {
			return stdio.Cannot("write metrics", err)
		}
		return cli.ExitOK
	}
	text, err := metrics.Text(&f.servers)
	if err != nil {
		return stdio.Cannot("list servers", err)
	}
	_, _ = stdio.Out.Write(text) // cli.Output reports it
	return cli.ExitOK
}

func (f *metricsFlags) serve(stdio cli.Stdio) int {
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return stdio.Cannot("listen", err)
	}
	return f.answer(listener, stdio)
}

// answer returns only if it cannot serve.
func (f *metricsFlags) answer(listener net.Listener, stdio cli.Stdio) int {
	fmt.Fprintf(stdio.Out, "listening on http://%s/metrics\n", listener.Addr())
	return stdio.Cannot("serve metrics", metrics.Serve(listener, &f.servers))
}
