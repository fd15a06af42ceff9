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

	"github.com/mcpscope/mcpscope/name"
	"github.com/mcpscope/mcpscope/scope"
)

// runFlags are the flags of run.
type runFlags struct {
	name    string
	backend scope.Backend
	policy  scope.Policy
	report  string
	quiet   bool
	verbose bool
}

// variables maps each flag to its environment variable.
var variables = map[string]string{
	"name": "MCPSCOPE_NAME", "backend": "MCPSCOPE_BACKEND", "eof-grace": "MCPSCOPE_EOF_GRACE",
	"term-grace": "MCPSCOPE_TERM_GRACE", "on-client-death": "MCPSCOPE_ON_CLIENT_DEATH",
	"report": "MCPSCOPE_REPORT", "q": "MCPSCOPE_QUIET", "v": "MCPSCOPE_VERBOSE",
}

func (f *runFlags) set() *flag.FlagSet {
	f.backend, f.policy = scope.Auto, scope.DefaultPolicy()
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
	fs.StringVar(&f.report, "report", "", "")
	fs.BoolVar(&f.quiet, "q", false, "")
	fs.BoolVar(&f.verbose, "v", false, "")
	return fs
}

// parse takes the environment first, so that a flag overrides its variable.
func (f *runFlags) parse(args []string) (operands []string, help bool, err error) {
	fs := f.set()
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
	env := os.Environ()
	// os.Environ drops duplicates
	if b, err := os.ReadFile("/proc/self/environ"); err == nil && len(b) > 0 {
		env = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	}
	return slices.DeleteFunc(env, func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		if key == "MCPSCOPE_ID" {
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
