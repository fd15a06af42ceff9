// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/name"
)

const both = Run | Gateway

// table has a row for each setting. The compiler lays it out, so it costs the start of the runner no time.
var table = [...]Row{
	{Name: "name", For: Run, Where: Variable, Arg: "NAME", // not in a file, whose sections are found by it
		Help: "name of the server (default: derived from COMMAND)",
		parse: func(v *Values, s string) error {
			v.Name = s
			return name.Check(s)
		}},
	{Name: "backend", For: both, Where: Everywhere, Arg: "NAME",
		Default: "auto",
		Values:  []string{"auto", "systemd-user", "systemd-system", "delegated", "cgroup", "tree"},
		Only:    true,
		Help: "where the group comes from: auto (default), " +
			"systemd-user, systemd-system, delegated, cgroup or tree",
		parse: func(v *Values, s string) error { return word(&v.Backend, s) }},
	{Name: "require", For: both, Where: Everywhere,
		Default: "false",
		Help: "fail if no cgroup is available, instead of using backend tree; " +
			"for gateway: fail if servers cannot be contained",
		parse: func(v *Values, s string) error { return flag(&v.Require, s) }},
	{Name: "eof-grace", For: both, Where: Everywhere, Arg: "D",
		Default: "1.2s",
		Values:  []string{"0", "500ms", "1.2s", "5s", "infinity"},
		Help:    "time from the end of stdin to SIGTERM (default 1.2s)",
		parse:   func(v *Values, s string) error { return keep(&v.Policy.EOFGrace, s, cli.ParseGrace) }},
	{Name: "term-grace", For: both, Where: Everywhere, Arg: "D",
		Default: "1s",
		Values:  []string{"0", "500ms", "1s", "5s", "infinity"},
		Help:    "time from SIGTERM to SIGKILL (default 1s, on a terminal 10s)",
		parse:   func(v *Values, s string) error { return keep(&v.Policy.TermGrace, s, cli.ParseGrace) }},
	{Name: "on-client-death", For: Run, Where: Everywhere, Arg: "auto|stop|ignore",
		Default: "auto",
		Values:  []string{"auto", "stop", "ignore"}, Only: true,
		Help: "auto (default): stop when the client dies, if stdin is a pipe or socket " +
			"that no other process holds open. stop: also if stdin is something else. ignore: never stop",
		parse: func(v *Values, s string) error { return word(&v.Policy.OnClientDeath, s) }},
	{Name: "replace", For: both, Where: Everywhere,
		Default: "false",
		Help: "as soon as the server runs, stop older servers of the same client process that have " +
			"the same name (under a gateway: the same command, directory and variables)",
		parse: func(v *Values, s string) error { return flag(&v.Replace, s) }},
	{Name: "idle-timeout", For: both, Where: Everywhere, Arg: "D",
		Default: "infinity",
		Values:  []string{"10m", "1h", "infinity"},
		Help:    "stop the server after D without CPU use, calls or unread input (default infinity)",
		parse: func(v *Values, s string) error {
			return keep(&v.Policy.IdleTimeout, s, cli.ParseLimit)
		}},
	{Name: "idle-freeze", For: both, Where: Everywhere, Arg: "D",
		Default: "infinity",
		Values:  []string{"10m", "1h", "infinity"},
		Help: "freeze the server, or an agent on a terminal, after D without use, reclaim its memory, " +
			"and wake it by the first byte of input (default infinity)",
		parse: func(v *Values, s string) error {
			return keep(&v.Policy.IdleFreeze, s, cli.ParseLimit)
		}},
	{Name: "memory-max", For: both, Where: Everywhere, Arg: "SIZE",
		Default: "max",
		Values:  []string{"512M", "1G", "max"},
		Help:    "limit the memory of the server and its descendants: 512M, 2G, max (default)",
		parse: func(v *Values, s string) error {
			return putLimit(&v.Limits, "memory.max", s, cgroup.ParseMemory)
		}},
	{Name: "min-free", For: Run, Where: Everywhere, Arg: "SIZE",
		Default: "0",
		Values:  []string{"0", "256M", "512M", "1G"},
		Help: "wait up to 10s until that much memory is free, and otherwise start nothing (default 0); " +
			"under a gateway the server starts, with a note",
		parse: func(v *Values, s string) error { return keep(&v.MinFree, s, ParseFree) }},
	{Name: "cpu-max", For: both, Where: Everywhere, Arg: "PERCENT",
		Default: "max",
		Values:  []string{"50%", "100%", "200%", "max"},
		Help:    "limit CPU use, as a percentage of one CPU: 150%",
		parse: func(v *Values, s string) error {
			return putLimit(&v.Limits, "cpu.max", s, cgroup.ParseCPU)
		}},
	{Name: "pids-max", For: both, Where: Everywhere, Arg: "N",
		Default: "max",
		Values:  []string{"100", "1000", "max"},
		Help:    "limit the number of processes and threads",
		parse: func(v *Values, s string) error {
			return putLimit(&v.Limits, "pids.max", s, cgroup.ParsePIDs)
		}},
	{Name: "set", For: both, Where: Everywhere, Arg: "FILE=VALUE",
		Help: "set another file of the group: memory.high=800M, memory.swap.max=0, cpu.weight=50 …; " +
			"may be repeated, or separated by semicolons",
		parse: func(v *Values, s string) error { return putLimits(&v.Limits, s) }},
	{Name: "keep", For: both, Where: File, List: true, Client: true, Arg: "PATTERN",
		Help: "let daemons whose program matches PATTERN outlive the server: ssh, epmd, godot*; " +
			"may be repeated", parse: func(v *Values, s string) error {
			if strings.Trim(s, "*") == "" {
				return fmt.Errorf("%q would keep every daemon: name programs", s)
			}
			return more(&v.Keep.Patterns, s)
		}},
	{Name: "keep-for", For: both, Where: Everywhere, Client: true, Arg: "D",
		Default: "infinity",
		Values:  []string{"1h", "8h", "1d", "infinity"},
		Help:    "stop what --keep has kept after D (default infinity)",
		parse:   func(v *Values, s string) error { return keep(&v.Keep.For, s, cli.ParseLimit) }},
	{Name: "stderr", For: both, Where: Everywhere, Arg: "inherit|journal",
		Default: "inherit",
		Values:  []string{"inherit", "journal"}, Only: true,
		Help: "destination of the server's stderr: that of the client (inherit, default), " +
			"or the journal, for mcpscope logs",
		parse: func(v *Values, s string) error { return word(&v.Output.Stderr, s) }},
	{Name: "report", For: Run, Where: Everywhere, Arg: "PATH|fd:N", Paths: true,
		Help:  "append one line of JSON at the end: cause, resource use, and the processes that were killed",
		parse: func(v *Values, s string) error { return word(&v.Output.Report, s) }},

	{Name: "config", For: Gateway, Arg: "CLIENT|FILE", Paths: true,
		Help: "recognize the servers of this configuration; " +
			"may be repeated (default: all configurations that mcpscope wrap --list finds)",
		parse: func(v *Values, s string) error { return more(&v.Gateway.Configs, s) }},
	{Name: "match", For: Gateway, Where: File, List: true, Whole: true, Arg: "GLOB",
		Help: "also recognize commands that match GLOB, by base name or by command line, " +
			"with or without the directory; may be repeated",
		parse: func(v *Values, s string) error { return more(&v.Gateway.Match, s) }},
	{Name: "except", For: Gateway, Where: File, List: true, Whole: true, Arg: "GLOB",
		Help:  "never recognize commands that match GLOB; may be repeated",
		parse: func(v *Values, s string) error { return more(&v.Gateway.Except, s) }},
	{Name: "session", For: Gateway, Where: Everywhere, Whole: true,
		Default: "false",
		Help: "put COMMAND and all its servers into a session: a group of groups that freeze, stop, set " +
			"and inspect take as a whole",
		parse: func(v *Values, s string) error { return flag(&v.Gateway.WantsSession, s) }},
	{Name: "session-set", For: Gateway, Where: Everywhere, Whole: true, Arg: "FILE=VALUE",
		Values: []string{"memory.max=8G", "pids.max=2000"},
		Help: "limit COMMAND and all its servers together, in a session: memory.max=8G, pids.max=2000 …; " +
			"out of memory a server is killed, and not COMMAND; may be repeated, or separated by semicolons",
		parse: func(v *Values, s string) error { return putLimits(&v.Gateway.Session, s) }},
	{Name: "explain", For: Gateway, Arg: "PATH|fd:N", Paths: true,
		Help: "append a line for each program that could be a server: the decision, and its reason",
		parse: func(v *Values, s string) error {
			v.Gateway.Explain = s
			if strings.HasPrefix(s, "-") {
				return errors.New("it takes a path or fd:N")
			}
			return nil
		}},

	{Name: "check", For: Gateway,
		Default: "false",
		Help: "start nothing; print whether servers can be contained here, and which commands " +
			"would be servers, by which rule, and under which name",
		parse: func(v *Values, s string) error { return flag(&v.Gateway.Check, s) }},

	{Name: "quiet", Short: "q", For: Run, Where: Everywhere,
		Default: "false",
		Help:    "print nothing, not even errors of mcpscope itself, and no notes with -v",
		parse:   func(v *Values, s string) error { return flag(&v.Output.Quiet, s) }},
	{Name: "verbose", Short: "v", For: Run, Where: Everywhere,
		Default: "false",
		Help:    "print notes on stderr, for example which processes were killed",
		parse:   func(v *Values, s string) error { return flag(&v.Output.Verbose, s) }},
}

func flag(to *bool, text string) error {
	*to = text == "true" // other words were refused by Row.set
	return nil
}

func word[T ~string](to *T, text string) error {
	*to = T(text)
	return nil
}

func keep[T any](to *T, text string, parse func(string) (T, error)) (err error) {
	*to, err = parse(text)
	return err
}

func more(to *[]string, text string) error {
	*to = append(*to, text)
	return nil
}

func putLimit(to *cgroup.Limits, file, text string, parse func(string) (string, error)) error {
	value, err := parse(text)
	if err == nil {
		to.Put(cgroup.Limit{File: file, Value: value})
	}
	return err
}

func putLimits(to *cgroup.Limits, text string) error {
	parsed, err := cgroup.ParseLimits(text)
	for _, one := range parsed {
		to.Put(one)
	}
	return err
}
