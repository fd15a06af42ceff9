// SPDX-License-Identifier: Apache-2.0

// Command notes-mcp is an MCP server. It answers each line with an empty result, and exits at the end of its input.
// `notes-mcp --daemon NAME` leaves a process of that name in another session, as servers with a browser do: it does not
// end with the server. `notes-mcp --deaf` stays after the end of its client.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	deaf := flag.Bool("deaf", false, "")
	daemon := flag.String("daemon", "", "")
	flag.Parse()
	if *deaf {
		signal.Ignore(unix.SIGPIPE) // its client may die before it reads an answer
	}
	if *daemon != "" {
		cmd := exec.Command("sleep", "infinity")
		cmd.Args[0] = *daemon
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "notes-mcp:", err)
			os.Exit(1)
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},` +
			`"serverInfo":{"name":"notes","version":"1"}}}`)
	}
	if *deaf {
		_ = unix.Pause() // a signal ends the process
	}
}
