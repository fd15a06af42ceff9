//go:build linux

package main

import (
	"flag"
	"fmt"

	"github.com/mcpscope/mcpscope/resources"
)

// limited are the flags for one file each.
var limited = []struct {
	flag, file string
	parse      func(string) (string, error)
}{
	{"memory-max", "memory.max", resources.ParseMemory},
	{"memory-high", "memory.high", resources.ParseMemory},
	{"swap-max", "memory.swap.max", resources.ParseSwap},
	{"cpu-max", "cpu.max", resources.ParseCPU},
	{"cpu-weight", "cpu.weight", resources.ParseWeight},
	{"io-weight", "io.weight", resources.ParseIOWeight},
	{"pids-max", "pids.max", resources.ParsePIDs},
}

// What --limits takes.
const (
	limitsStrict = "strict"
	limitsLoose  = "best-effort"
)

// limitFlags are the same for run and gateway.
func limitFlags(fs *flag.FlagSet, l *resources.Limits) {
	for _, f := range limited {
		fs.Func(f.flag, "", func(s string) error {
			value, err := f.parse(s)
			if err == nil {
				l.Put(resources.Limit{File: f.file, Value: value})
			}
			return err
		})
	}
	fs.Func("set", "", func(s string) error {
		all, err := resources.ParseAll(s)
		for _, limit := range all {
			l.Put(limit)
		}
		return err
	})
	fs.BoolVar(&l.OOMGroup, "oom-group", true, "")
	fs.Func("limits", "", func(s string) error {
		l.BestEffort = s == limitsLoose
		if s != limitsStrict && s != limitsLoose {
			return fmt.Errorf("%q is neither %s nor %s", s, limitsStrict, limitsLoose)
		}
		return nil
	})
}
