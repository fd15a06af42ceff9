// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// recorder has flags that record what they are set to.
type recorder struct {
	flags []Flag
	sets  []string
}

func newRecorder() *recorder {
	r := &recorder{}
	for _, flag := range []Flag{
		{Name: "follow", Short: "f", Switch: true}, {Name: "quiet", Short: "q", Switch: true},
		{Name: "lines", Short: "n"}, {Name: "idle-freeze"}, {Name: "idle-timeout"}, {Name: "json", Switch: true},
	} {
		flag.Set = func(value string) error {
			if value == "bad" {
				return errors.New("it is refused")
			}
			r.sets = append(r.sets, flag.Name+"="+value)
			return nil
		}
		r.flags = append(r.flags, flag)
	}
	return r
}

func TestSet(t *testing.T) {
	for _, c := range []struct{ line, sets, before, among, err string }{
		{line: "a b", before: "a b", among: "a b"},
		{line: "--lines 5 a", sets: "lines=5", before: "a", among: "a"},
		{line: "--lines=5 a", sets: "lines=5", before: "a", among: "a"},
		{line: "-lines 5 -n 6 -n=7 -n8", sets: "lines=5 lines=6 lines=7 lines=8"},
		{line: "--n 5", sets: "lines=5"},
		{line: "--lines= a", sets: "lines=", before: "a", among: "a"},
		{line: "--lines a=b", sets: "lines=a=b"},
		{line: "--lines=a=b", sets: "lines=a=b"},
		{line: "--lines -- a", sets: "lines=--", before: "a", among: "a"},
		{line: "-fq", sets: "follow=true quiet=true"},
		{line: "-fn5", sets: "follow=true lines=5"},
		{line: "-fn=5", sets: "follow=true lines=5"},
		{line: "-fn 5 a", sets: "follow=true lines=5", before: "a", among: "a"},
		{line: "-fq=false", sets: "follow=true quiet=false"},
		{line: "--json --json=false", sets: "json=true json=false"},
		{line: "-- --json", before: "--json", among: "--json"},
		{line: "--json -- a -- b", sets: "json=true", before: "a -- b", among: "a -- b"},
		{line: "- --json", sets: "json=true", before: "- --json", among: "-"},
		{line: "a --json b", sets: "json=true", before: "a --json b", among: "a b"},
		{line: "--json --help --nope", sets: "json=true", err: "help is requested"},
		{line: "-fh", sets: "follow=true", err: "help is requested"},
		{line: "-help", err: "help is requested"},
		{line: "--lines", err: "flag --lines needs a value"},
		{line: "-fn", err: "flag -n needs a value"},
		{line: "--lines bad", err: `--lines "bad": it is refused`},
		{line: "-fnbad", sets: "follow=true", err: `-n "bad": it is refused`},
		{line: "-x", err: `unknown flag "-x"`},
		{line: "-fx", err: `unknown flag "-fx"`},
		{line: "-ü", err: `unknown flag "-ü"`},
		{line: "---json", err: `unknown flag "---json"; did you mean --json?`},
		{line: "--=x", err: `unknown flag "--"`},
		{line: "--no-json", err: `unknown flag "--no-json"`},
		{line: "--jsn=1", err: `unknown flag "--jsn"; did you mean --json?`},
		{line: "--idle", err: `unknown flag "--idle"; did you mean --idle-freeze or --idle-timeout?`},
		{line: "--idlefreze 1s", err: `unknown flag "--idlefreze"; did you mean --idle-freeze?`},
	} {
		words := strings.Fields(c.line)
		among := newRecorder()
		operands, err := SetAmongOperands(among.flags, words)
		among.check(t, c.line+" (among)", c.sets, c.among, c.err, operands, err)
		before := newRecorder()
		operands, err = SetBeforeOperands(before.flags, words)
		sets := c.sets
		if c.before != c.among { // the flags are behind an operand
			sets = ""
		}
		before.check(t, c.line+" (before)", sets, c.before, c.err, operands, err)
	}
}

func (r *recorder) check(t *testing.T, line, sets, operands, failure string, gotOperands []string, err error) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if strings.Join(r.sets, " ") != sets || strings.Join(gotOperands, " ") != operands || got != failure {
		t.Errorf("%s: sets %q, operands %q, error %q; want %q, %q, %q", line, r.sets, gotOperands, got, sets, operands, failure)
	}
}

func TestParseSwitch(t *testing.T) {
	for text, want := range map[string]string{
		"true": "true", "1": "true", "false": "false", "0": "false",
		"": `"" is neither true nor false`, "yes": `"yes" is neither true nor false`,
	} {
		on, err := ParseSwitch(text)
		got := fmt.Sprint(on)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
