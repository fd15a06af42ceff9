// SPDX-License-Identifier: Apache-2.0

package name

import (
	"slices"
	"strings"
)

// grammar is as much of a program's flags as it takes to find its first
// operand: which flags are followed by a value. Lists are separated by blanks.
type grammar struct {
	valued string // flags that take a value …
	plain  string // … or, where this is set, those that don't: all others do
	dir    string // valued flags that say where things are
	final  string // valued flags that name what runs: all behind is for that
	long   bool   // -name is one flag, not four
}

// parsed is a command line taken apart at its first operand.
type parsed struct {
	flags    map[string]string // with dashes; "" for one without a value, the last one counts
	dir      string            // from grammar.dir
	operands []string          // from the first operand on, flags behind it included
}

func (g grammar) parse(args []string) parsed {
	p := parsed{flags: map[string]string{}}
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			args = args[1:]
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		var last bool
		if args, last = g.flag(&p, arg, args[1:]); last {
			break
		}
	}
	p.operands = args
	return p
}

// flag takes one argument that begins with a dash, and what belongs to it from
// rest. last: it named what runs.
func (g grammar) flag(p *parsed, arg string, rest []string) (after []string, last bool) {
	if !g.long && arg[1] != '-' {
		return g.cluster(p, arg[1:], rest)
	}
	flag, value, attached := strings.Cut(arg, "=")
	if !attached && g.takesValue(flag) && len(rest) > 0 {
		value, rest = rest[0], rest[1:]
	}
	return rest, g.note(p, flag, value)
}

// cluster takes one-letter flags in one argument: -it, -itp80:80, -oL, -e A=B.
func (g grammar) cluster(p *parsed, letters string, rest []string) (after []string, last bool) {
	for i := range len(letters) {
		flag := "-" + letters[i:i+1]
		if !g.takesValue(flag) {
			g.note(p, flag, "")
			continue
		}
		value := strings.TrimPrefix(letters[i+1:], "=")
		if i+1 == len(letters) && len(rest) > 0 {
			value, rest = rest[0], rest[1:]
		}
		return rest, g.note(p, flag, value)
	}
	return rest, false
}

func (g grammar) note(p *parsed, flag, value string) (last bool) {
	p.flags[flag] = value
	if listed(g.dir, flag) {
		p.dir = join(p.dir, value)
	}
	return listed(g.final, flag)
}

func (g grammar) takesValue(flag string) bool {
	if listed(g.dir, flag) || listed(g.final, flag) {
		return true
	}
	if g.plain != "" {
		return !listed(g.plain, flag) && !strings.HasPrefix(flag, "--no-")
	}
	return listed(g.valued, flag)
}

// first is the value of the first of these flags that was given one.
func (p parsed) first(flags string) string {
	for flag := range strings.FieldsSeq(flags) {
		if v := p.flags[flag]; v != "" {
			return v
		}
	}
	return ""
}

// word is the first operand, and what follows it.
func (p parsed) word() (string, []string) {
	if len(p.operands) == 0 {
		return "", nil
	}
	return p.operands[0], p.operands[1:]
}

func listed(list, word string) bool { return slices.Contains(strings.Fields(list), word) }
