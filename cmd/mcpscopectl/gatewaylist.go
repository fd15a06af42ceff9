// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
)

// gatewayView is a gateway with the servers that it has.
type gatewayView struct {
	gw.Status
	Servers []view `json:"servers"`
}

// listGateways prints each gateway with its servers, and what was left beside them.
func (f *lsFlags) listGateways(io cli.Stdio) int {
	found, err := gw.List(whose(f.allUsers))
	if err != nil {
		return io.Cannot("list gateways", err)
	}
	servers, err := f.list()
	defer closeAll(servers)
	if err != nil {
		return io.Cannot("list servers", err)
	}
	all := []gatewayView{}
	for _, s := range found {
		v := gatewayView{Status: s, Servers: []view{}}
		for _, server := range lookAtAll(servers) {
			if server.Client.PID == s.PID && server.UID == s.UID {
				v.Servers = append(v.Servers, server)
			}
		}
		all = append(all, v)
	}
	if f.json {
		return showJSON(io, "list gateways", struct {
			Version  int           `json:"version"`
			Gateways []gatewayView `json:"gateways"`
		}{viewVersion, all})
	}
	if len(all) == 0 {
		sayNone(io.Out, "no gateways")
	}
	for i, v := range all {
		if i > 0 {
			fmt.Fprintln(io.Out)
		}
		v.write(io.Out, widthOf(io.Out))
	}
	return cli.ExitOK
}

func (v *gatewayView) write(out io.Writer, width int) {
	fmt.Fprintf(out, "%s[%d], for %s: %s, %d taken so far\n", cli.OneLine(v.Name), v.PID, humanSeconds(time.Since(v.Started).Seconds()), counted(len(v.Servers), "server"), v.Status.Servers)
	writeTable(out, v.Servers, false, width)
	for _, why := range v.Weaker {
		fmt.Fprintf(out, "weaker: %s\n", cli.OneLine(why))
	}
	if v.Quiet() {
		fmt.Fprintln(out, "no server was found so far")
	}
	for _, l := range v.Left {
		fmt.Fprintf(out, "left: %s, %s: %s\n", cli.OneLine(l.Program), times(l.Count), cli.OneLine(l.Reason))
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// quietGateways are for doctor: what runs, and has no server or may miss some.
func quietGateways() []string {
	found, _ := gw.List(os.Getuid()) // none, without /proc
	var all []string
	for _, s := range found {
		if s.Quiet() {
			all = append(all, fmt.Sprintf("%s[%d] has had no MCP server: mcpscope ls --gateways says what it started", s.Name, s.PID))
		}
		for _, why := range s.Weaker {
			all = append(all, fmt.Sprintf("%s[%d]: %s", s.Name, s.PID, why))
		}
	}
	return all
}
