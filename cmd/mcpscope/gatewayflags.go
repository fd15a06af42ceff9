//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	gw "github.com/mcpscope/mcpscope/gateway"
	"github.com/mcpscope/mcpscope/resources"
	"github.com/mcpscope/mcpscope/scope"
)

// gatewayFlags are the flags of gateway.
type gatewayFlags struct {
	rules          gw.Rules
	configs        []string // clients or files; none for all that are found
	policy         scope.Policy
	limits         resources.Limits
	backend        scope.Backend
	slice          string
	explain        string
	replace        bool
	contain        bool
	check          time.Duration // run it that long, and say what was taken; 0 to become it
	require        bool
	keepPrivileges bool
	quiet          bool
	verbose        bool
}

// checkFor is how long --check runs the gateway.
const checkFor = 10 * time.Second

func isCheck(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return strings.HasPrefix(arg, "-") && name == "check"
}

// shared are the flags of run that mean the same here, for every server.
var shared = []string{
	"backend", "slice", "eof-grace", "term-grace", "replace", "max-lifetime", "idle-timeout", "require", "q", "v",
	"memory-max", "memory-high", "swap-max", "cpu-max", "cpu-weight", "io-weight", "pids-max", "oom-group", "set", "limits",
}

func (f *gatewayFlags) parse(args []string) (operands []string, help bool, err error) {
	var run runFlags
	of := run.set()
	fs := flag.NewFlagSet("gateway", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, name := range shared {
		fs.Var(of.Lookup(name).Value, name, "")
	}
	if err := fromEnvironment(fs); err != nil {
		return nil, false, err
	}
	for name, to := range map[string]*[]string{"match": &f.rules.Match, "except": &f.rules.Except, "config": &f.configs} {
		fs.Func(name, "", func(s string) error {
			*to = append(*to, s)
			return nil
		})
	}
	fs.StringVar(&f.explain, "explain", "", "")
	fs.BoolVar(&f.contain, "contain-gateway", false, "")
	fs.BoolFunc("check", "", func(s string) (err error) {
		f.check = checkFor
		if s != "true" {
			f.check, err = time.ParseDuration(s)
		}
		if err == nil && f.check <= 0 {
			err = errors.New("it takes a positive duration, as in --check=30s")
		}
		return err
	})
	fs.Func("recognize", "", func(s string) error {
		f.rules.NamedOnly = s == "never"
		if s != "auto" && s != "never" {
			return fmt.Errorf("%q is neither auto nor never", s)
		}
		return nil
	})
	fs.Func("no-new-privs", "", func(s string) error {
		f.keepPrivileges = s == "never"
		if s != "auto" && s != "never" {
			return fmt.Errorf("%q is neither auto nor never", s)
		}
		return nil
	})
	err = fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil, true, nil
	}
	f.policy, f.backend, f.slice, f.replace, f.require = run.policy, run.backend, run.slice, run.replace, run.require
	f.limits, f.quiet, f.verbose = run.limits, run.quiet, run.verbose
	if err == nil && strings.HasPrefix(f.explain, "-") {
		err = fmt.Errorf("--explain takes a path or fd:N, not %q", f.explain)
	}
	if err == nil && f.backend == scope.Tree {
		err = errors.New("a tree can't take in a process that runs already: --backend auto")
	}
	return fs.Args(), false, clearer(err)
}
