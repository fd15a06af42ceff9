// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"io"
	"os"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/doctor"
)

// probeCommand is the server of a trial: it prints its position, and ends with its stdin.
func probeCommand(_ []string, stdio cli.Stdio) int {
	_ = json.NewEncoder(stdio.Out).Encode(doctor.OwnPosition()) // cli.Output reports it
	_, _ = io.Copy(io.Discard, os.Stdin)                        // stdin may be closed
	return cli.ExitOK
}

// gatewayProbeCommand is the gateway of a trial.
func gatewayProbeCommand(_ []string, stdio cli.Stdio) int {
	if err := doctor.RunProbe(stdio.Out, stdio.Err); err != nil {
		return stdio.Cannot("start a server", err)
	}
	return cli.ExitOK
}
