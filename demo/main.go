// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Demo kills an agent with a dozen published MCP servers, once without mcpscope
// and once with it, and shows what is left.
//
//	demo [-picture FILE] MCPSCOPE CLIENTS
//
// CLIENTS is the directory that test/e2e/clients/setup fills. The exit status is 1
// when a process is left with mcpscope, or when none is left without it: then the
// comparison shows nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	picture := flag.String("picture", "", "write the two panels to this `file` as SVG")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo [-picture FILE] MCPSCOPE CLIENTS (see demo/run)")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	if err := show(ctx, flag.Arg(0), flag.Arg(1), *picture); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

const (
	// No client is alive that still waits for a server.
	leftAfter = 3 * time.Second
	// The longest wait for servers that mcpscope stops or freezes.
	giveUp = 30 * time.Second
)

// servers are the command lines that an agent's configuration has.
func servers(count int) (lines []string) {
	names := []string{"everything", "filesystem .", "memory"}
	for i := range count {
		lines = append(lines, "uvxlike node_modules/.bin/mcp-server-"+names[i%len(names)])
	}
	return lines
}

func show(ctx context.Context, mcpscope, clients, file string) (err error) {
	var agents []*agent
	defer func() {
		for _, a := range agents {
			err = errors.Join(err, a.end())
		}
	}()
	const compared, becomeIdle = 11, 3
	fmt.Fprintf(os.Stderr, "demo: starting %d servers without mcpscope, the same %d with it, and %d that become idle\n",
		compared, compared, becomeIdle)
	for i, kind := range []struct {
		prefix string
		lines  []string
	}{
		{"", servers(compared)},
		{mcpscope + " run -- ", servers(compared)},
		{mcpscope + " run --idle-freeze 3s -- ", servers(becomeIdle)},
	} {
		a, err := startAgent(clients, i, kind.prefix, kind.lines)
		if err != nil {
			return err
		}
		agents = append(agents, a)
	}
	bare := agents[0]
	contained := agents[1]
	idle := agents[2]
	if err := awaitAnswers(ctx, agents); err != nil {
		return err
	}
	started := bare.left(0)
	bare.kill()
	contained.kill()
	killed := time.Now()
	for len(contained.processes()) > 0 && time.Since(killed) < giveUp && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	rest := contained.left(time.Since(killed))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(leftAfter - time.Since(killed)):
	}
	pair := picture{bare.left(time.Since(killed)), rest}
	pair.print(os.Stdout, isTerminal(os.Stdout))
	if pair.With.Processes > 0 {
		return fmt.Errorf("processes are left with mcpscope: %v", pair.With.Names)
	}
	if pair.Without.Processes < started.Processes || started.Processes == 0 {
		return fmt.Errorf("of %d processes %d are left without mcpscope", started.Processes, pair.Without.Processes)
	}
	if file != "" {
		if err := os.WriteFile(file, pair.svg(), 0o644); err != nil {
			return err
		}
	}
	return showIdle(ctx, idle, filepath.Join(filepath.Dir(mcpscope), "mcpscopectl"))
}

// showIdle prints what the freeze of idle servers saves on this machine.
func showIdle(ctx context.Context, a *agent, tool string) error {
	before := a.left(0)
	began := time.Now()
	for idle := 0; idle < len(a.lines); idle = idleServers(tool, a.client.Process.Pid) {
		if time.Since(began) > giveUp || ctx.Err() != nil {
			fmt.Println("Idle servers were not frozen: mcpscope doctor has the reason.")
			return context.Cause(ctx)
		}
		time.Sleep(100 * time.Millisecond)
	}
	after := a.left(0)
	asked := time.Now()
	if err := a.request("ask 0", "answer "); err != nil {
		return err
	}
	answered := time.Since(asked).Milliseconds()
	swap := swapName()
	if swap == "" { // figures that are alike would only puzzle
		fmt.Printf("%d idle servers, frozen: they use no processor. Their memory stays, for there is no swap here "+
			"(mcpscope doctor has the command for zram).\n", len(a.lines))
	} else {
		fmt.Printf("%d idle servers, frozen: %d MB → %d MB (swap: %s).\n",
			len(a.lines), before.megabytes(), after.megabytes(), swap)
	}
	fmt.Printf("The next request was answered after %d ms.\n", answered)
	return nil
}

// swapName is the first swap of this host, "" without swap.
func swapName() string {
	text, _ := os.ReadFile("/proc/swaps") // no swap without it
	var head [5]string
	var name string
	if n, _ := fmt.Sscan(string(text), &head[0], &head[1], &head[2], &head[3], &head[4], &name); n < 6 {
		return ""
	}
	return name
}
