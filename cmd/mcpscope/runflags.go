//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/config"
	"github.com/mcpscope/mcpscope/name"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/resources"
	"github.com/mcpscope/mcpscope/scope"
)

// runFlags are the flags of run.
type runFlags struct {
	name    string
	backend scope.Backend
	require bool
	replace bool
	slice   string
	policy  scope.Policy
	limits  resources.Limits
	stderr  scope.Stderr
	report  string
	quiet   bool
	verbose bool
	strict  bool
	given   *flag.FlagSet           // by flag or variable
	from    map[string]config.Value // and by a file, by flag
}

// variables maps each flag to its environment variable.
var variables = map[string]string{
	"name": "MCPSCOPE_NAME", "backend": "MCPSCOPE_BACKEND", "require": "MCPSCOPE_REQUIRE", "slice": "MCPSCOPE_SLICE", "replace": "MCPSCOPE_REPLACE",
	"max-lifetime": "MCPSCOPE_MAX_LIFETIME", "idle-timeout": "MCPSCOPE_IDLE_TIMEOUT",
	"eof-grace":  "MCPSCOPE_EOF_GRACE",
	"term-grace": "MCPSCOPE_TERM_GRACE", "on-client-death": "MCPSCOPE_ON_CLIENT_DEATH",
	"stderr": "MCPSCOPE_STDERR", "report": "MCPSCOPE_REPORT", "q": "MCPSCOPE_QUIET", "v": "MCPSCOPE_VERBOSE",
	"strict-config": "MCPSCOPE_STRICT_CONFIG",
	"memory-max":    "MCPSCOPE_MEMORY_MAX", "memory-high": "MCPSCOPE_MEMORY_HIGH", "swap-max": "MCPSCOPE_SWAP_MAX",
	"cpu-max": "MCPSCOPE_CPU_MAX", "cpu-weight": "MCPSCOPE_CPU_WEIGHT", "io-weight": "MCPSCOPE_IO_WEIGHT", "pids-max": "MCPSCOPE_PIDS_MAX",
	"oom-group": "MCPSCOPE_OOM_GROUP", "set": "MCPSCOPE_SET", "limits": "MCPSCOPE_LIMITS",
}

func (f *runFlags) set() *flag.FlagSet {
	f.backend, f.slice, f.policy = scope.Auto, scope.DefaultSlice, scope.DefaultPolicy()
	f.limits = resources.Default()
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.Func("name", "", func(s string) error {
		f.name = s
		return name.Check(s)
	})
	fs.Func("backend", "", func(s string) (err error) {
		f.backend, err = scope.ParseBackend(s)
		return err
	})
	fs.BoolVar(&f.require, "require", false, "")
	fs.BoolVar(&f.replace, "replace", false, "")
	fs.Func("max-lifetime", "", func(s string) (err error) {
		f.policy.MaxLifetime, err = scope.ParseLimit(s)
		return err
	})
	fs.Func("idle-timeout", "", func(s string) (err error) {
		f.policy.IdleTimeout, err = scope.ParseLimit(s)
		return err
	})
	fs.Func("slice", "", func(s string) error {
		f.slice = s
		return scope.CheckSlice(s)
	})
	fs.Func("eof-grace", "", func(s string) (err error) {
		f.policy.EOFGrace, err = scope.ParseGrace(s)
		return err
	})
	fs.Func("term-grace", "", func(s string) (err error) {
		f.policy.TermGrace, err = scope.ParseGrace(s)
		return err
	})
	fs.Func("on-client-death", "", func(s string) (err error) {
		f.policy.OnClientDeath, err = scope.ParseClientDeath(s)
		return err
	})
	fs.Func("stderr", "", func(s string) (err error) {
		f.stderr, err = scope.ParseStderr(s)
		return err
	})
	limitFlags(fs, &f.limits)
	fs.StringVar(&f.report, "report", "", "")
	fs.String("wrapped", "", "") // for unwrap, which reads it in a client's configuration
	fs.BoolVar(&f.quiet, "q", false, "")
	fs.BoolVar(&f.verbose, "v", false, "")
	fs.BoolVar(&f.strict, "strict-config", false, "")
	return fs
}

// parse takes the environment first, so that a flag overrides its variable.
func (f *runFlags) parse(args []string) (operands []string, help bool, err error) {
	fs := f.set()
	f.given = fs
	if err := fromEnvironment(fs); err != nil {
		return nil, false, err
	}
	err = fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil, true, nil
	}
	return fs.Args(), false, clearer(err)
}

func fromEnvironment(fs *flag.FlagSet) error {
	var err error
	fs.VisitAll(func(fl *flag.Flag) {
		value, set := os.LookupEnv(variables[fl.Name])
		if !set || value == "" || err != nil {
			return
		}
		if e := fs.Set(fl.Name, value); e != nil {
			err = fmt.Errorf("%s: %w", variables[fl.Name], e)
		}
	})
	return err
}

// clearer says what package flag says with the flag spelled as people write it.
func clearer(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return fmt.Errorf("unknown flag %q", dashes(rest))
	}
	if rest, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Errorf("flag %s needs a value", dashes(rest))
	}
	if rest, ok := strings.CutPrefix(text, "invalid value "); ok {
		if value, rest, ok := strings.Cut(rest, " for flag -"); ok {
			if fl, why, ok := strings.Cut(rest, ": "); ok {
				return fmt.Errorf("%s %s: %s", dashes(fl), value, why)
			}
		}
	}
	return err
}

func dashes(flag string) string {
	if len(flag) == 1 {
		return "-" + flag
	}
	return "--" + flag
}

// serverEnvironment is the client's environment, to the byte and in its order,
// without what was meant for us. MCPSCOPE_ID is added later: it would be that of a server
// around this one.
func serverEnvironment() []string {
	env, err := proc.Environ()
	if err != nil {
		env = os.Environ() // without duplicates; and without /proc nothing works anyway
	}
	return slices.DeleteFunc(env, func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		if key == "MCPSCOPE_ID" || key == config.Variable {
			return true
		}
		for _, v := range variables {
			if key == v {
				return true
			}
		}
		return false
	})
}
